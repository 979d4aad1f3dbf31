// Loaded into npm while it installs (scripts/setup.sh): packages that ask for a Node are held against the one that the
// project brings, by which they will be run, and not against the one that runs npm. Else an npm with an older Node
// leaves optional packages out without a word, such as the compiled part of a bundler.
const { optionalDependencies } = require('../package.json');

const [version] = Object.values(optionalDependencies);
Object.defineProperty(process, 'version', { value: `v${version}`, enumerable: true });
