// Hints for slips of the pen: the known word that is nearest to one that is not known.

import { CONTROLS } from "./spelling.js";

const LONGEST_WORD = 64;
const COMPARED = 8;

/** Twice the characters that two texts share, by longest common runs, over the characters of both. */
function likeness(one, other) {
  return one.length + other.length ? (2 * shared(one, other)) / (one.length + other.length) : 1;
}

function shared(one, other) {
  let [size, i, j] = [0, 0, 0];
  for (let a = 0; a < one.length; a++)
    for (let b = 0; b < other.length; b++) {
      let n = 0;
      while (a + n < one.length && b + n < other.length && one[a + n] === other[b + n]) n += 1;
      if (n > size) [size, i, j] = [n, a, b];
    }
  if (!size) return 0;
  return size + shared(one.slice(0, i), other.slice(0, j)) + shared(one.slice(i + size), other.slice(j + size));
}

/** The known word that `word` is a slip of the pen for; null when there is none, or when it is known. */
export function nearest(word, known) {
  if (known.includes(word) || word.length > LONGEST_WORD) return null;
  const rated = known.map((name) => [likeness(name.toLowerCase(), word.toLowerCase()), name]);
  const [best] = rated.filter(([rate]) => rate >= 0.7).sort(([a, x], [b, y]) => b - a || (x < y ? 1 : -1));
  return best?.[1] ?? null;
}

export function didYouMean(word, known, otherwise) {
  const close = nearest(word, known);
  return close ? `Did you mean ${close}? ${otherwise}` : otherwise;
}

/** A hint for a text in which a control is misspelled; null for another one. */
export function nearControl(text) {
  const names = CONTROLS.map((control) => control.slice(2, -2));
  for (const [spelled, name] of [...text.matchAll(/<\|([A-Za-z_]{2,20})\|?>/g)].slice(0, COMPARED)) {
    const meant = names.includes(name) ? name : nearest(name, names);
    if (meant && !CONTROLS.includes(spelled)) return `Did you mean <|${meant}|> by ${spelled}?`;
  }
  return null;
}
