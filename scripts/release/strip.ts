// An ELF file without what the kernel and the loader never map: symbols and debugging data, a seventh of Node. binutils are
// not asked, because each can strip its own architectures only, and not all of its versions to the same bytes. Pure.

/** Bytes of the header of a 64-bit file (elf(5)); the numbers of one field are those of the specification. */
const header = {
  programHeaders: 0x20,
  sectionHeaders: 0x28,
  size: 0x36,
  count: 0x38,
  sections: 0x3c,
  names: 0x3e,
} as const;
const field = { offset: 0x08, sizeInFile: 0x20 } as const;

/** A little-endian 64-bit program without its symbols. Throws for any other file. */
export function stripped(elf: Buffer): Buffer {
  if (elf.readUInt32BE(0) !== 0x7f454c46 || elf[4] !== 2 || elf[5] !== 1)
    throw new Error('Cannot strip: no 64-bit ELF');
  const [first, size, count] = [
    Number(elf.readBigUInt64LE(header.programHeaders)),
    elf.readUInt16LE(header.size),
    elf.readUInt16LE(header.count),
  ];
  const ends = Array.from({ length: count }, (_, at) => {
    const from = first + at * size;
    return Number(elf.readBigUInt64LE(from + field.offset) + elf.readBigUInt64LE(from + field.sizeInFile));
  });
  const kept = Buffer.from(elf.subarray(0, Math.max(first + size * count, ...ends)));
  kept.writeBigUInt64LE(0n, header.sectionHeaders);
  kept.writeUInt16LE(0, header.sections);
  kept.writeUInt16LE(0, header.names);
  return kept;
}
