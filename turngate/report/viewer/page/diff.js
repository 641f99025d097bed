// What changed between two texts: lines of a longest common subsequence stay, the others are new or gone.
const CELLS = 1e6; // above this many pairs of lines there is no difference to show
// [[kind, parts], …] in the order of reading, kind "same", "gone" or "new"; null where the two are too large.
const difference = (before, after) => {
  let start = 0,
    end = 0;
  const most = Math.min(before.length, after.length);
  while (start < most && before[start] === after[start]) start++;
  while (end < most - start && before.at(-1 - end) === after.at(-1 - end)) end++;
  const a = before.slice(start, before.length - end),
    b = after.slice(start, after.length - end);
  const wide = b.length + 1;
  if ((a.length + 1) * wide > CELLS) return null;
  const common = new Uint32Array((a.length + 1) * wide); // of a from i and b from j
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      common[i * wide + j] =
        a[i] === b[j]
          ? common[(i + 1) * wide + j + 1] + 1
          : Math.max(common[(i + 1) * wide + j], common[i * wide + j + 1]);
  const found = [];
  const add = (kind, part) => {
    const last = found.at(-1);
    if (last && last[0] === kind) last[1].push(part);
    else found.push([kind, [part]]);
  };
  before.slice(0, start).forEach((part) => add("same", part));
  let i = 0,
    j = 0;
  while (i < a.length || j < b.length)
    if (i < a.length && j < b.length && a[i] === b[j]) {
      add("same", a[i++]);
      j++;
    } else if (j >= b.length || (i < a.length && common[(i + 1) * wide + j] >= common[i * wide + j + 1]))
      add("gone", a[i++]);
    else add("new", b[j++]);
  if (end) before.slice(-end).forEach((part) => add("same", part));
  return found;
};
const words = (line) => line.split(/(\s+)/).filter(Boolean);
const written = (changes, kind) =>
  changes.reduce((n, [own, parts]) => n + (own === kind ? parts.join("").trim().length : 0), 0);
// The difference of two lines by words; null where less than half of what is written in the longer one stayed.
const wordChanges = (before, after) => {
  const changes = difference(words(before), words(after)),
    stayed = changes ? written(changes, "same") : 0;
  return stayed && 2 * stayed >= Math.max(before.trim().length, after.trim().length) ? changes : null;
};
// Lines that are gone and new ones in their place. A new line of which words stand in a line that is gone is "changed", and
// stands as the difference of their words; neither side's order is left.
const replaced = (gone, fresh) => {
  const runs = [];
  let at = 0,
    unlike = [];
  const add = (kind, lines) => lines.length && runs.push([kind, lines]);
  for (const line of fresh) {
    const changes = gone.slice(at).map((old) => wordChanges(old, line)),
      found = changes.findIndex(Boolean);
    if (found < 0) unlike.push(line);
    else {
      add("gone", gone.slice(at, at + found));
      add("new", unlike);
      add("changed", [changes[found]]);
      at += found + 1;
      unlike = [];
    }
  }
  add("gone", gone.slice(at));
  add("new", unlike);
  return runs;
};
const PAIRS = 400; // above this many pairs of lines in one place their words are not compared
// The difference of two texts by lines; null where nothing stayed, or the texts are too large.
const lineChanges = (before, after) => {
  const found = difference(before.split("\n"), after.split("\n"));
  if (!found) return null;
  const runs = [];
  for (let at = 0; at < found.length; at++) {
    const [[kind, lines], next] = [found[at], found[at + 1]];
    if (kind === "gone" && next?.[0] === "new" && lines.length * next[1].length <= PAIRS)
      runs.push(...replaced(lines, found[++at][1]));
    else runs.push(found[at]);
  }
  const stayed = ([kind, lines]) => kind === "changed" || (kind === "same" && lines.some((line) => line.trim()));
  return runs.some(stayed) ? runs : null;
};
const changesWords = (runs, than) => {
  const told = ["new", "gone", "changed"]
    .map((wanted) => [wanted, runs.filter(([kind]) => kind === wanted).flatMap(([, lines]) => lines)])
    .map(([wanted, lines]) => [wanted, lines.filter((line) => wanted === "changed" || line.trim()).length])
    .filter(([, n]) => n);
  return told.length
    ? `${told.map(([word, n], i) => `${i ? n : plural(n, "line")} ${word}`).join(", ")} since ${than}`
    : `as ${than}`;
};

// A text with what is new marked and what is gone struck through. Of more than ``GONE`` lines in a row that are gone only
// their number is shown until asked for. ``end``: how many characters of the text are shown.
const GONE = 4;
const MARKS_OF = { new: (text) => html`<ins>${text}</ins>`, gone: (text) => html`<del>${text}</del>` };
const Changes = ({ runs, end }) => {
  const [open, setOpen] = useState([]);
  const drawn = [];
  let left = end;
  const marked = (kind, text) => {
    const part = kind === "gone" ? text : text.slice(0, Math.max(0, left));
    if (kind !== "gone") left -= text.length;
    return part.trim() && MARKS_OF[kind] ? MARKS_OF[kind](part) : part;
  };
  runs.forEach(([kind, lines], run) => {
    if (kind === "gone" && left > 0 && lines.length > GONE && !open.includes(run))
      drawn.push(html`<button type="button" onClick=${() => setOpen([...open, run])}>show ${lines.length} lines that are gone</button>`);
    else
      for (const line of lines) {
        if (left <= 0) return;
        drawn.push(kind === "changed" ? line.flatMap(([own, parts]) => parts.map((part) => marked(own, part))) : marked(kind, line));
        if (kind !== "gone") left--; // the end of the line
      }
  });
  return html`<pre>${drawn.map((line, i) => html`${i ? "\n" : ""}${line}`)}</pre>`;
};
