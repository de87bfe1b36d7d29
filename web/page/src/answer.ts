// The core's report taken apart, and put together again as the page shows it. The same function writes the worked answer at the
// build and every later answer here, so both are the report: its words, its numbers, its charts.
//
//   const parts = partsOf(reportHtml);       {verdict: "does_not_fit", line: "needs 148.6 GiB ...", sections: [...]}
//   head.innerHTML = headHtml(parts);        all names within are escaped by the core

export interface Section {
  title: string;
  figure: string; // <svg ...>, or empty
  rest: string; // tables and sentences
}

export interface Parts {
  verdict: string;
  line: string;
  sections: Section[];
}

function unwrapped(body: string): string {
  return body.replace(/^<div class=scroll>/, "").replace(/<\/div>$/, "");
}

function sectionOf(title: string, body: string): Section {
  const inner = unwrapped(body);
  const figure = /<figure>([\s\S]*?)<\/figure>/.exec(inner);
  return { title, figure: figure?.[1] ?? "", rest: figure ? inner.replace(figure[0], "") : inner };
}

export function partsOf(report: string): Parts {
  const chip = /<span class="verdict ([a-z_]+)">/.exec(report);
  const line = /<h1>([\s\S]*?)<\/h1>/.exec(report);
  const sections: Section[] = [];
  const found =
    /<section>(?:<h2>([\s\S]*?)<\/h2>)?([\s\S]*?)<\/section>|<details><summary>([\s\S]*?)<\/summary>([\s\S]*?)<\/details>/g;
  for (let match = found.exec(report); match; match = found.exec(report))
    sections.push(sectionOf(match[1] ?? match[3] ?? "", match[2] ?? match[4] ?? ""));
  return { verdict: chip?.[1] ?? "", line: line?.[1] ?? "", sections };
}

export function styleOf(report: string): string {
  const style = /<style>([\s\S]*?)<\/style>/.exec(report)?.[1] ?? "";
  // The colours and classes of the charts end where the report's own page begins.
  return style.slice(0, style.indexOf("*{box-sizing"));
}

const VERDICTS: Record<string, string> = { fits: "fits", tight: "tight", does_not_fit: "does not fit" };
export function verdictWords(verdict: string): string {
  return VERDICTS[verdict] ?? verdict.replace(/_/g, " ");
}

function section(parts: Parts, begins: string): Section | undefined {
  return parts.sections.find((one) => one.title.startsWith(begins));
}

// "needs 148.6 GiB (140.1 to 159.8), usable 79.1: 69.5 too much": the number that was asked stands out.
export function lineHtml(line: string): string {
  const match = /^(needs )([\d.,]+ \w+)( \([^)]*\))?(.*)$/.exec(line);
  if (!match) return line;
  return `<span class="asked">${match[1]}<b>${match[2]}</b></span><span class="band">${match[3] ?? ""}${match[4]}</span>`;
}

export function headHtml(parts: Parts): string {
  const peak = section(parts, "At the peak");
  const time = section(parts, "Time");
  const step = /<p>([\s\S]*?)<\/p>/.exec(time?.rest ?? "")?.[1];
  const where = [peak?.title.replace(/^At the peak: /, "peak in "), step].filter(Boolean).join(" · ");
  return `<p class="line"><span class="verdict ${parts.verdict}">${verdictWords(parts.verdict)}</span>${lineHtml(parts.line)}</p>
<p class="where">${where}</p>
<figure id="bar">${peak?.figure ?? ""}</figure>`;
}

function card(id: string, title: string, body: string, wide = true): string {
  return body
    ? `<section class="card${wide ? " wide" : ""}" id="${id}" aria-labelledby="${id}-title"><h2 id="${id}-title">${title}</h2>${body}</section>`
    : "";
}

function asTable(words: string, html: string): string {
  return html ? `<details class="table"><summary>${words}</summary><div class="scroll">${html}</div></details>` : "";
}

function figure(one: Section | undefined): string {
  return one?.figure ? `<figure>${one.figure}</figure>` : "";
}

// A row for each change, its number a button.
function waysHtml(ways: Section | undefined): string {
  if (!ways) return `<p class="quiet">No change that is known makes it fit alone. Plan searches other layouts and more devices.</p>`;
  let index = 0;
  const rows = ways.rest.replace(/<tr><td>(\d+) {2}/g, (_all, number: string) => {
    index += 1;
    return `<tr><td><button type="button" class="apply" data-apply="${index - 1}" aria-label="apply change ${number}">${number}</button> `;
  });
  return `<div class="scroll ways">${rows}</div>${figure(ways)}`;
}

export function cardsHtml(parts: Parts, searching: boolean): string {
  const peak = section(parts, "At the peak");
  const assumptions = parts.sections.find((one) => / assumptions?$/.test(one.title));
  const ways = section(parts, "Ways out");
  const step = section(parts, "One step");
  const phases = section(parts, "Phases");
  const ranks = section(parts, "Ranks");
  const schedule = section(parts, "Schedule");
  const time = section(parts, "Time");
  const warnings = section(parts, "Warnings");
  const alive = section(parts, "What was alive");
  const why = section(parts, "Where each number");
  return [
    card("warnings", "Warnings", warnings?.rest ?? ""),
    // Where it fits there is nothing to change.
    card(
      "ways",
      "A change that fits",
      ways || (!searching && parts.verdict === "does_not_fit")
        ? waysHtml(ways)
        : parts.verdict === "fits" || !searching
          ? ""
          : `<p class="quiet searching">searching for changes that fit …</p>`,
    ),
    card("step", "One step", figure(step)),
    card("phases", "Phases", figure(phases) + asTable("The peak as a table", peak?.rest ?? "")),
    card("ranks", "Ranks", ranks ? figure(ranks) + asTable("View as table", ranks.rest) : ""),
    card("schedule", "Schedule", figure(schedule)),
    card("time", "Time of a step", time?.rest ? `<div class="scroll">${time.rest}</div>` : ""),
    card(
      "behind",
      "Behind the numbers",
      asTable(`${assumptions?.title ?? ""}: what was taken, and why`, assumptions?.rest ?? "") +
        asTable("What was alive at the peak", alive?.rest ?? "") +
        asTable("Where each number comes from", why?.rest ?? ""),
    ),
  ].join("");
}
