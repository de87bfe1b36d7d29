// How wide the core draws: charts on a narrow screen are drawn for it, so that their labels keep their size.
//
//   {...runOf(state), ...drawn(), svg: "bar.svg"}

const NARROW = "(max-width: 860px)";
const WIDEST = 720;
const LEAST = 260;
// What stands beside a chart there: the margins of the page and of its card.
const BESIDE = 54;

export function drawn(): { picture_width?: number } {
  if (!matchMedia(NARROW).matches) return {};
  return { picture_width: Math.min(WIDEST, Math.max(LEAST, Math.floor((innerWidth - BESIDE) / 10) * 10)) };
}

// Told when charts must be drawn for another width: a phone is turned, a window is drawn small.
export function onOtherWidth(listener: () => void): void {
  let before = drawn().picture_width;
  let timer: ReturnType<typeof setTimeout> | undefined;
  addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const now = drawn().picture_width;
      if (now !== before) listener();
      before = now;
    }, 150);
  });
}
