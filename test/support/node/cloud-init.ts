// Boots of cloud-init with user data, by hand, on a machine that belongs to no cloud.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Node, withScratch } from './node.ts';

/** Only the modules that a published user data has: the others would give the machine another name, keys and users. */
const configuration = `datasource_list: [NoCloud]
network: { config: disabled }
cloud_init_modules: [write-files]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts-user]
`;
const seed = 'var/lib/cloud/seed/nocloud';
const stages = ['init --local', 'init', 'modules --mode=config', 'modules --mode=final'];

/** The stages of a first boot with this user data. Rejects when one of them fails. */
export async function applyUserData(node: Node, userData: string): Promise<void> {
  await node.sh(`rm -rf /var/lib/cloud && mkdir -p /${seed}`);
  await withScratch(async (scratch) => {
    await writeFile(join(scratch, 'user-data'), userData);
    await writeFile(join(scratch, 'meta-data'), 'instance-id: first\n');
    await node.copyIn(scratch, `/${seed}`);
    await writeFile(join(scratch, 'cloud.cfg'), configuration);
  });
  await node.sh(`cat > /etc/cloud/cloud.cfg <<'END'\n${configuration}END\nrm -f /etc/cloud/cloud.cfg.d/*.cfg`);
  await node.sh(`cloud-init schema --config-file /${seed}/user-data`);
  for (const stage of stages) await node.sh(`cloud-init ${stage} 2>&1`, { seconds: 120 });
}
