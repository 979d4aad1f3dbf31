import { describe, expect, it } from 'vitest';
import { type AddressSettings, filesOfSource, readsOfSource } from '../../lib/config/address-settings.ts';

const machines = (more: object): AddressSettings => ({ kind: 'machines', api: 'openshift', ...more });

describe('filesOfSource()', () => {
  it.each<[AddressSettings, readonly string[]]>([
    [{ kind: 'nodes', nodes: {} }, []],
    [{ kind: 'file', file: '/a.yaml' }, ['/a.yaml']],
    [machines({}), []],
    [machines({ kubeconfig: '/k' }), ['/k']],
    [{ kind: 'served', caFile: '/ca.crt' }, ['/ca.crt']],
    [{ kind: 'cidrs', cidrs: ['192.0.2.0/24'] }, []],
  ])('of %j are %j', (settings, files) => expect(filesOfSource(settings)).toEqual(files));
});

describe('readsOfSource()', () => {
  it.each<[AddressSettings, readonly object[]]>([
    [{ kind: 'nodes', nodes: {} }, []],
    [machines({}), [{ apiGroup: 'machine.openshift.io', resource: 'machines', verbs: ['list', 'watch'] }]],
    [machines({ kubeconfig: '/k' }), []],
    [{ kind: 'cidrs', cidrs: ['192.0.2.0/24'] }, [{ apiGroup: '', resource: 'nodes', verbs: ['list'] }]],
  ])('of %j are %j', (settings, reads) => expect(readsOfSource(settings)).toEqual(reads));
});
