// Compare: two runs by task, and two episodes turn by turn.
const lastPhase = (run) => {
  const names = [...new Set(run.list.map((row) => row.phase))];
  return (
    ["after", "eval", "before"].map((stage) => names.find((name) => name.startsWith(stage))).find(Boolean) ??
    names[0] ??
    ""
  );
};
const byTask = (run, phase) => {
  const found = new Map();
  for (const row of run.list)
    if (row.phase === phase) (found.get(row.task) ?? found.set(row.task, []).get(row.task)).push(row);
  return found;
};

const ComparePage = ({ index, a, b }) => {
  const found = useLoaded(
    async () => ({ a: opened(await source.run(a)), b: opened(await source.run(b)), pair: await source.compare(a, b) }),
    [a, b],
  );
  const [phases, setPhases] = useState(null);
  useTitle("compare");
  const choose = (one, other) => {
    location.hash = link("compare", one, other);
  };
  const select = (label, value, change) =>
    html`<label>${label} <select value=${value} onChange=${(event) => change(event.target.value)}>${index.runs.map((run) => html`<option value=${run.id}>${run.name}</option>`)}</select></label>`;
  const A = found.value?.a,
    B = found.value?.b,
    ready = A && B;
  const [one, other] = phases ?? (ready ? [lastPhase(A), lastPhase(B)] : ["", ""]);
  const rows = useMemo(() => {
    if (!ready) return [];
    const left = byTask(A, one),
      right = byTask(B, other);
    return [...new Set([...left.keys(), ...right.keys()])].sort().map((task) => {
      const sides = [left.get(task) ?? [], right.get(task) ?? []],
        rates = sides.map(successOf);
      return {
        task,
        sides,
        rates,
        wins:
          rates[0] === null || rates[1] === null
            ? "one side only"
            : rates[0] > rates[1]
              ? "A"
              : rates[1] > rates[0]
                ? "B"
                : "equal",
      };
    });
  }, [ready, A, B, one, other]);
  const phaseSelect = (label, run, value, change) =>
    html`<label>${label} <select value=${value} onChange=${(event) => change(event.target.value)}>${[...new Set(run.list.map((row) => row.phase))].sort().map((name) => html`<option value=${name}>${name}</option>`)}</select></label>`;
  const beside = (row) =>
    row.sides[0][0] && row.sides[1][0]
      ? link("beside", a, row.sides[0][0].id, b, row.sides[1][0].id)
      : link("run", row.sides[0][0] ? a : b, "task", row.task);
  const count = (name) => rows.filter((row) => row.wins === name).length;
  return html`<h1>Compare two runs</h1>
  <p class="form">${select("A", a, (value) => choose(value, b))} ${select("B", b, (value) => choose(a, value))} ${ready ? html`${phaseSelect("episodes of A", A, one, (value) => setPhases([value, other]))} ${phaseSelect("of B", B, other, (value) => setPhases([one, value]))}` : null}</p>
  ${
    found.error
      ? html`<p class="warning">${String(found.error.message)}</p>`
      : found.waiting
        ? html`<p>reading …</p>`
        : !ready
          ? html`<${Missing} what=${`run ${A ? b : a}`} />`
          : html`
  ${(found.value.pair?.phases ?? []).map((part) => html`<h2>${part.title}</h2><${Table} label=${part.title} cells=${part.cells} />${part.lines.map((line) => html`<p class="dim">${line}</p>`)}`)}
  ${found.value.pair?.problem ? html`<p class="dim">No paired intervals: ${found.value.pair.problem}</p>` : null}
  <h2>Who wins where</h2><p>A wins ${plural(count("A"), "task")}, B ${plural(count("B"), "task")}, ${count("equal")} equal, ${count("one side only")} played on one side only.</p>
  <${Rows} label="tasks of both runs" rows=${rows} open=${beside} columns=${[
    ["task", (row) => row.task],
    ["A solved", (row) => `${row.sides[0].filter((one) => one.success).length} of ${row.sides[0].length}`, "n"],
    ["B solved", (row) => `${row.sides[1].filter((one) => one.success).length} of ${row.sides[1].length}`, "n"],
    ["A paid", (row) => say(mean(row.sides[0].map((one) => one.paid))), "n"],
    ["B paid", (row) => say(mean(row.sides[1].map((one) => one.paid))), "n"],
    ["wins", (row) => row.wins],
    [
      "",
      (row) =>
        html`<a href=${beside(row)}>${row.sides[0][0] && row.sides[1][0] ? "next to each other" : "its episodes"}</a>`,
    ],
  ]} />`
  }`;
};

const BesidePage = ({ a, one, b, other }) => {
  const found = useLoaded(async () => {
    const side = async (run, id) => {
      const record = opened(await source.run(run)),
        row = record?.byId.get(id),
        group = row && (await source.group(run, row.group));
      return {
        run: record,
        row,
        rows: row ? record.list.filter((o) => o.task === row.task) : [],
        episode: group?.episodes.find((e) => e.id === id),
      };
    };
    return [await side(a, one), await side(b, other)];
  }, [a, one, b, other]);
  useTitle("two episodes");
  if (found.error) return html`<h1>Two episodes</h1><p class="warning">${String(found.error.message)}</p>`;
  if (found.waiting) return html`<h1>Two episodes</h1><p>reading …</p>`;
  const [left, right] = found.value;
  if (!left.row || !right.row)
    return html`<${Missing} what=${`episode ${left.row ? other : one}`} run=${(left.row ? right : left).run} />`;
  const n = Math.max(left.episode?.turns.length ?? 0, right.episode?.turns.length ?? 0),
    text = (side, i) => side.episode?.turns[i];
  const differs = (i) => {
    const [x, y] = [text(left, i), text(right, i)];
    return !x || !y
      ? "one of them is over"
      : x.seen !== y.seen
        ? "the observation differs"
        : x.text !== y.text
          ? "the action differs"
          : "";
  };
  const first = [...Array(n).keys()].find((i) => differs(i));
  const head = (
    side,
    take,
  ) => html`<div><p><a href=${episodeLink(side.run.id, side.row.id)}>${side.row.id}</a> of ${side.run.name}, step ${side.row.step}</p><p><${Result} row=${side.row} />, paid ${say(side.row.paid)}</p>
    <label>another of the task <select value=${side.row.id} onChange=${(event) => {
      location.hash = take(event.target.value);
    }}>${side.rows.map((row) => html`<option value=${row.id}>${row.id} (step ${row.step}, ${resultOf(row)})</option>`)}</select></label></div>`;
  const cell = (turn, beside) =>
    turn
      ? html`<div><h4>observed</h4><${Text} text=${turn.seen} against=${beside?.seen} than="what is seen on the left" /><h4>${turn.written}</h4><${Text} text=${turn.text} kind="wrote" /><p>credit ${signed(turn.credit)}, reward ${signed(turn.reward)}</p><${Ledger} lines=${turn.ledger} /></div>`
      : html`<div class="dim">no turn</div>`;
  return html`<h1>Two episodes, turn by turn</h1>
    <div class="columns">${head(left, (id) => link("beside", a, id, b, other))}${head(right, (id) => link("beside", a, one, b, id))}</div>
    ${left.episode && right.episode ? null : html`<p class="warning">The turns of one of them are not in this file.</p>`}
    <p><strong>${
      first === undefined
        ? "No turn differs."
        : html`<a href=${`${location.hash.split("?")[0]}?turn=${first}`} onClick=${(event) => {
            event.preventDefault();
            document.getElementById(`turn-${first}`)?.scrollIntoView();
          }}>Turn ${first} is the first that differs</a>: ${differs(first)}.`
    }</strong></p>
    ${[...Array(n).keys()].map((i) => html`<${Lazy} key=${i} id=${`turn-${i}`} label=${`turn ${i}`} estimate=${260}>${() => html`<h3>turn ${i}${i === first ? html` <span class="badge">first difference: ${differs(i)}</span>` : differs(i) ? html` <span class="dim">${differs(i)}</span>` : null}</h3><div class="columns">${cell(text(left, i))}${cell(text(right, i), text(left, i))}</div>`}<//>`)}`;
};
