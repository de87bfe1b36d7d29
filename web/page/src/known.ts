// What the core knows, as the build wrote it down: names for the combo boxes, keys of the run file, the worked answer's run.
// The build asks `steelyard list ... --json` (known_data.ts); nothing here is kept by hand.

import data from "virtual:steelyard";

export interface Key {
  key: string;
  flag: string;
  names: string[];
  absent: string;
  help: string;
}

export interface Named {
  name: string;
  words: string;
}

export interface Known {
  version: string;
  keys: Key[];
  models: Named[];
  devices: Named[];
  engines: Named[];
  optimizers: Named[];
  precisions: Named[];
}

export const known: Known = data;
const byName = new Map(known.keys.map((key) => [key.key, key]));
export function keyOf(name: string): Key | undefined {
  return byName.get(name);
}
