// What several pages are made of.
const say = (value, digits = 3) =>
  value === null || value === undefined
    ? "–"
    : typeof value === "number"
      ? String(+value.toPrecision(digits))
      : String(value);
const signed = (value) => (value === null || value === undefined ? "–" : (value > 0 ? "+" : "") + say(value, 4));
const share = (value) => (value === null || Number.isNaN(value) ? "–" : `${(100 * value).toFixed(1)} %`);
const mean = (values) => {
  const known = values.filter((one) => one !== null && one !== undefined);
  return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
};
// Of all values, divided by their number; null for fewer than two, exactly 0 for equal ones.
const deviation = (values) => {
  if (values.length < 2 || values.some((one) => one === null)) return null;
  if (values.every((one) => one === values[0])) return 0;
  const middle = mean(values);
  return Math.sqrt(mean(values.map((one) => (one - middle) ** 2)));
};
const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
const link = (...parts) => "#/" + parts.map((one) => encodeURIComponent(one)).join("/");
const episodeLink = (run, id, turn) =>
  turn === undefined ? link("run", run, "episode", id) : link("run", run, "episode", id, "turn", turn);
const resultOf = (row) => (!row.usable ? "unusable" : row.success ? "solved" : "not solved");
const MARKS = { solved: "✓", "not solved": "✗", unusable: "?" };

const Result = ({ row }) => {
  const name = resultOf(row);
  return html`<span class=${"result " + name.replace(" ", "-")}><span aria-hidden="true">${MARKS[name]}</span> ${name}</span>`;
};

const copyText = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
};
const Copy = ({ text, label }) => {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await copyText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1200);
  };
  return html`<span class="copy"><code>${label ?? text}</code><button type="button" onClick=${copy} aria-label=${"copy " + text}>${done ? "copied" : "copy"}</button></span>`;
};
const quoted = (word) => (/^[A-Za-z0-9_./=:@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
const Command = ({ words }) =>
  html`<${Copy} text=${"turngate " + words.map((one) => quoted(String(one))).join(" ")} />`;

// A text of somebody else: only ever a text node. A long one is shown in part until asked for.
const SHOWN = 4000;
const cutAt = (text, all) => {
  if (all || text.length <= SHOWN) return text.length;
  const code = text.charCodeAt(SHOWN - 1);
  return code >= 0xd800 && code < 0xdc00 ? SHOWN - 1 : SHOWN;
};
const More = ({ text, all, show }) =>
  all || text.length <= SHOWN
    ? null
    : html`<button type="button" onClick=${show}>show all ${text.length.toLocaleString("en")} characters</button>`;
// ``against``: another text, of which is shown what is new and what is gone; ``than`` names it.
const Text = ({ text, against, than = "the observation before", kind = "" }) => {
  const [all, setAll] = useState(false);
  const end = cutAt(text, all);
  const runs = useMemo(() => (against?.trim() ? lineChanges(against, text) : null), [against, text]);
  return html`<div class=${"text " + kind}>
    ${runs ? html`<${Changes} runs=${runs} end=${end < text.length ? end : Infinity} />` : html`<pre>${text.slice(0, end) || html`<span class="dim">(empty)</span>`}</pre>`}
    ${against?.trim() ? html`<p class="dim">${runs ? changesWords(runs, than) : `nothing in common with ${than}`}</p>` : null}
    <${More} text=${text} all=${all} show=${() => setAll(true)} /></div>`;
};

// The text of a turn, shaded by token: neighbours of one shade are one element. Without a tokenizer: the text, and a cell
// for each token.
const SHADES = 12;
const shadeOf = (mode, credit, scale, surprise) => {
  const step = (part) => Math.ceil(SHADES * Math.min(1, part)) / SHADES;
  if (mode === "advantage" && credit !== null) {
    const part = Math.abs(credit) / (scale || 1);
    return part < 0.01
      ? ""
      : credit > 0
        ? `rgba(0,114,178,${0.12 + 0.33 * step(part)})`
        : `rgba(213,94,0,${0.12 + 0.33 * step(part)})`;
  }
  if (mode === "surprise" && surprise !== null)
    return surprise < 0.05 ? "" : `rgba(204,121,167,${0.08 + 0.47 * step(surprise / 4)})`;
  return "";
};
// Runs of tokens that have one shade: [text, shade].
const shaded = (turn, shade, end) => {
  const found = [];
  let at = 0;
  turn.tokens.lengths.forEach((length, i) => {
    if (!length || at >= end) return;
    const own = shade(i),
      text = turn.text.slice(at, Math.min(end, at + length)),
      last = found.at(-1);
    if (last && last[1] === own) last[0] += text;
    else found.push([text, own]);
    at += length;
  });
  return found;
};
// The token under the pointer.
const tokenAt = (event, lengths) => {
  const place = document.caretPositionFromPoint?.(event.clientX, event.clientY);
  if (!place || !event.currentTarget.contains(place.offsetNode)) return -1;
  const before = document.createRange();
  before.setStart(event.currentTarget, 0);
  before.setEnd(place.offsetNode, place.offset);
  let left = before.toString().length;
  return lengths.findIndex((length) => (left -= length) < 0);
};
const Tokens = ({ turn, mode, scale }) => {
  const [all, setAll] = useState(false);
  const { surprise, policy, lengths, credit } = turn.tokens,
    end = cutAt(turn.text, all);
  const title = (i) =>
    `token ${i}: ${surprise[i] === null ? "surprise not known" : `surprise ${surprise[i]} nats`}${policy[i] !== "1" ? ", not the policy's" : credit ? `, credit ${signed(credit[i])}` : ""}`;
  const shade = (i) => (policy[i] === "1" ? shadeOf(mode, credit ? credit[i] : turn.credit, scale, surprise[i]) : "");
  if (lengths && mode !== "plain") {
    const name = (event) => {
      const i = tokenAt(event, lengths);
      event.currentTarget.title = i < 0 ? "" : title(i);
    };
    const runs = shaded(turn, shade, end);
    return html`<div class="text wrote"><pre onMouseMove=${name}>${runs.length ? runs.map(([text, own]) => (own ? html`<span class="tok" style=${{ background: own }}>${text}</span>` : text)) : html`<span class="dim">(empty)</span>`}</pre><${More} text=${turn.text} all=${all} show=${() => setAll(true)} /></div>`;
  }
  return html`<div><${Text} text=${turn.text} kind="wrote" />${surprise.length && mode !== "plain" ? html`<p class="cells" aria-hidden="true">${surprise.slice(0, 600).map((_, i) => html`<i title=${title(i)} style=${{ background: shade(i) || "var(--line)" }}></i>`)}</p>` : null}</div>`;
};

// Drawn only while it is near the window; keeps its height otherwise. One observer watches all of them.
const nearby = new Map();
const watch = new IntersectionObserver(
  (entries) => entries.forEach((entry) => nearby.get(entry.target)?.(entry.isIntersecting)),
  { rootMargin: "1200px 0px" },
);
const Lazy = ({ estimate, children, id, label }) => {
  const ref = useRef(null),
    [near, setNear] = useState(false),
    height = useRef(estimate);
  useEffect(() => {
    const element = ref.current;
    nearby.set(element, (isNear) => {
      if (!isNear) height.current = element.offsetHeight || height.current;
      setNear(isNear);
    });
    watch.observe(element);
    return () => {
      watch.unobserve(element);
      nearby.delete(element);
    };
  }, []);
  return html`<section id=${id} class="turn" ref=${ref} aria-label=${label} style=${near ? {} : { minHeight: `${height.current}px` }}>${near ? children() : html`<h3>${label}</h3>`}</section>`;
};

// A table of which only the rows in sight are drawn.
const ROW = 34;
const Rows = ({ rows, columns, open, label, room = 560 }) => {
  const [top, setTop] = useState(0),
    [cursor, setCursor] = useState(-1),
    box = useRef(null);
  useEffect(() => {
    setCursor(-1);
    setTop(0);
    if (box.current) box.current.scrollTop = 0;
  }, [rows]);
  useKeys({
    move: (by) =>
      setCursor((at) => {
        const next = Math.max(0, Math.min(rows.length - 1, at + by));
        if (box.current) {
          if (next * ROW < box.current.scrollTop) box.current.scrollTop = next * ROW;
          if ((next + 2) * ROW > box.current.scrollTop + box.current.clientHeight)
            box.current.scrollTop = (next + 2) * ROW - box.current.clientHeight;
        }
        return next;
      }),
    open: () => {
      if (rows[cursor]) location.hash = open(rows[cursor]);
    },
  });
  const first = Math.max(0, Math.floor(top / ROW) - 8),
    last = Math.min(rows.length, first + Math.ceil(room / ROW) + 16);
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label} ref=${box} style=${{ maxHeight: `${room}px` }} onScroll=${(event) => setTop(event.currentTarget.scrollTop)}>
    <table aria-rowcount=${rows.length + 1}><thead><tr>${columns.map(([name]) => html`<th scope="col">${name}</th>`)}</tr></thead><tbody>
    ${first ? html`<tr aria-hidden="true" class="spacer"><td colspan=${columns.length} style=${{ height: `${first * ROW}px` }}></td></tr>` : null}
    ${rows.slice(first, last).map((row, i) => html`<tr key=${first + i} class=${first + i === cursor ? "at" : ""}>${columns.map(([, cell, kind]) => html`<td class=${kind ?? ""}>${cell(row)}</td>`)}</tr>`)}
    ${last < rows.length ? html`<tr aria-hidden="true" class="spacer"><td colspan=${columns.length} style=${{ height: `${(rows.length - last) * ROW}px` }}></td></tr>` : null}
    </tbody></table></div>`;
};

const episodeColumns = (run) => [
  ["step", (row) => html`<a href=${link("run", run.id, "step", row.step, row.phase)}>${row.step}</a>`, "n"],
  ["phase", (row) => row.phase],
  ["episode", (row) => html`<a href=${episodeLink(run.id, row.id)}>${row.id}</a>`],
  ["result", (row) => html`<${Result} row=${row} />`],
  ["paid", (row) => say(row.paid), "n"],
  ["earned", (row) => say(row.earned), "n"],
  ["turns", (row) => row.turns, "n"],
  ["help", (row) => row.help || "–"],
  ["ending", (row) => row.ending],
  ["gates", (row) => Object.keys(row.gates).join(", ") || "–"],
  ["dropped", (row) => row.dropped || "–"],
];

const Table = ({ cells, label }) =>
  html`<div class="scroll" tabindex="0" role="region" aria-label=${label}><table><thead><tr>${cells[0].map((cell) => html`<th scope="col">${cell}</th>`)}</tr></thead><tbody>${cells.slice(1).map((row) => html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table></div>`;

// Curves; Okabe and Ito's colours, and a dash of its own for each line, so that no colour vision is needed.
const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"],
  DASHES = [[], [6, 3], [2, 3], [10, 3, 2, 3], [4, 4], [1, 2]];
const Chart = ({ title, unit, x, lines, top }) => {
  const box = useRef(null);
  const usable = lines.filter((line) => line.y.some((value) => value !== null));
  useEffect(() => {
    if (!box.current || !usable.length) return undefined;
    const style = getComputedStyle(document.documentElement),
      ink = style.getPropertyValue("--ink"),
      grid = style.getPropertyValue("--line");
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
    const one = x.length < 2;
    const plot = new uPlot(
      {
        width: Math.max(240, box.current.clientWidth),
        height: 190,
        cursor: { points: { size: 6 } },
        scales: {
          x: { time: false, ...(one ? { range: [x[0] - 1, x[0] + 1] } : {}) },
          y: {
            range: (_, low, high) => [
              Math.min(0, low),
              top ?? (high > low ? high + 0.05 * (high - Math.min(0, low)) : high > 0 ? 1.1 * high : 1),
            ],
          },
        },
        axes: [
          { ...axis, space: 60 },
          { ...axis, size: 58 },
        ],
        legend: { show: usable.length > 1 },
        series: [
          { label: "step" },
          ...usable.map((line, i) => ({
            label: line.label,
            stroke: COLOURS[i % 6],
            dash: DASHES[i % 6],
            width: 2,
            spanGaps: false,
            points: { show: x.length < 40, size: 5, fill: COLOURS[i % 6] },
          })),
        ],
      },
      [x, ...usable.map((line) => line.y)],
      box.current,
    );
    const watch = new ResizeObserver(() => {
      if (box.current) plot.setSize({ width: Math.max(240, box.current.clientWidth), height: 190 });
    });
    watch.observe(box.current);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
  }, [title, x, lines, document.documentElement.dataset.theme]);
  if (!usable.length) return null;
  const told = usable.map((line) => {
    const known = line.y.filter((one) => one !== null);
    return `${line.label}: ${say(known[0])} at first, ${say(known.at(-1))} at last, ${say(Math.min(...known))} to ${say(Math.max(...known))}`;
  });
  return html`<figure class="chart"><figcaption><strong>${title}</strong> <span class="dim">${unit}</span></figcaption><div ref=${box} aria-hidden="true"></div><p class="unseen">${told.join("; ")}</p></figure>`;
};

// Keys of the page that is shown; the last one that was drawn answers.
const answering = [];
const useKeys = (keys) => {
  const own = useRef(keys);
  own.current = keys;
  useEffect(() => {
    answering.push(own);
    return () => {
      answering.splice(answering.indexOf(own), 1);
    };
  }, []);
};
const press = (name, value) => {
  for (const one of [...answering].reverse())
    if (one.current[name]) {
      one.current[name](value);
      return true;
    }
  return false;
};
const useTitle = (title) => {
  useEffect(() => {
    document.title = `${title} – turngate`;
  }, [title]);
};
// What ``load`` gives for these keys, and again when the version changes; what was loaded for other keys is not shown.
const useLoaded = (load, keys, version) => {
  const key = JSON.stringify(keys),
    [state, setState] = useState({});
  useEffect(() => {
    let wanted = true;
    load().then(
      (value) => wanted && setState({ key, value }),
      (error) => wanted && setState({ key, error }),
    );
    return () => {
      wanted = false;
    };
  }, [key, version]);
  return state.key === key ? state : { waiting: true };
};
