// Numbers as the terminal prints them. Verdicts, bars and tables come from the core as they are; this is for the few rows that
// the page puts together itself.

export function gib(bytes: number): string {
  return (bytes / 2 ** 30).toFixed(1);
}

// print_seconds of the core.
export function seconds(value: number): string {
  const three = (number: number, unit: string): string =>
    number >= 99.95 ? `${number.toFixed(0)} ${unit}` : `${number.toFixed(1)} ${unit}`;
  if (value < 1e-3) return three(value * 1e6, "us");
  if (value < 1) return three(value * 1e3, "ms");
  if (value < 7200) return three(value, "s");
  return three(value / 3600, "h");
}

export function count(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

export function percent(part: number): string {
  return `${Math.round(part * 100)} %`;
}

export function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);
}
