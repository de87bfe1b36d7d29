// Snapshots of any size, as PyTorch's pickles are: one block of events, repeated. The browser keeps the block once.

export function snapshotParts(bytes: number): { head: number[]; block: number[]; tail: number[]; blocks: number } {
  const text = (words: string): number[] => {
    const codes = [...words].map((one) => one.charCodeAt(0));
    return [0x58, codes.length & 255, codes.length >> 8, 0, 0, ...codes];
  };
  const long = (value: number): number[] => {
    const digits: number[] = [];
    for (let rest = value; rest > 0; rest = Math.floor(rest / 256)) digits.push(rest % 256);
    return [0x8a, digits.length + 1, ...digits, 0];
  };
  const event = (action: string, address: number, size: number, time: number): number[] => [
    ...[0x7d, 0x28, ...text("action"), ...text(action), ...text("addr"), ...long(address)],
    ...[...text("size"), ...long(size), ...text("stream"), 0x4b, 0, ...text("time_us"), ...long(time)],
    ...[...text("frames"), 0x5d, 0x75],
  ];
  const block: number[] = [];
  for (let i = 0; i < 500; i += 1) {
    const [address, size, time] = [0x7f0000000000 + i * 2 ** 21, 512 * (i + 1), 1_700_000_000_000_000 + i];
    for (const action of ["alloc", "free_requested", "free_completed"]) block.push(...event(action, address, size, time));
  }
  return {
    head: [0x80, 2, 0x7d, 0x28, ...text("segments"), 0x5d, ...text("device_traces"), 0x5d, 0x28, 0x5d, 0x28],
    block,
    tail: [0x65, 0x65, 0x75, 0x2e],
    blocks: Math.ceil(bytes / block.length),
  };
}
