// Step: its groups of siblings as rows.
const gatesOf = (rows) => {
  const found = {};
  for (const row of rows)
    for (const [name, [earned, paid]] of Object.entries(row.gates)) {
      const sums = (found[name] ??= [0, 0]);
      sums[0] += earned;
      sums[1] += paid;
    }
  return Object.entries(found);
};
const Sibling = ({ run, row }) => {
  const name = resultOf(row);
  return html`<a class=${"chip " + name.replace(" ", "-")} href=${episodeLink(run.id, row.id)} title=${`${row.id}: ${name}, paid ${say(row.paid)}${row.help ? `, helped: ${row.help}` : ""}${row.dropped ? `, dropped: ${row.dropped}` : ""}`}><span aria-hidden="true">${MARKS[name]}</span><span class="unseen">${name}, paid </span> ${say(row.paid, 2)}${row.help ? html`<sup title="had help">h</sup>` : null}</a>`;
};
const Group = ({ run, rows, at }) => {
  const spread = rows.map((row) => row.credit).filter(Boolean),
    gates = gatesOf(rows),
    usable = rows.filter((row) => row.usable);
  const dropped = Object.entries(
    rows.reduce((sums, row) => (row.dropped ? { ...sums, [row.dropped]: (sums[row.dropped] ?? 0) + 1 } : sums), {}),
  );
  const spreadOfPay = deviation(usable.map((row) => row.paid));
  const sum = (name) => usable.reduce((a, row) => a + (row[name] ?? 0), 0);
  return html`<article class=${at ? "group at" : "group"} data-item=${rows[0].group}>
    <h2><a href=${link("run", run.id, "task", rows[0].task)}>${rows[0].task}</a></h2>
    <p class="chips">${rows.map((row) => html`<${Sibling} run=${run} row=${row} />`)}</p>
    <dl class="facts"><div><dt>outcome</dt><dd>${say(mean(usable.map((row) => row.outcome)))}</dd></div>
    <div><dt>earned → paid</dt><dd>${say(sum("earned"))} → ${say(sum("paid"))}</dd></div>
    <div><dt>by gate</dt><dd>${gates.length ? gates.map(([name, [earned, paid]]) => html`<code>${name}</code>: ${say(earned)} → ${say(paid)} `) : "no gate cut anything"}</dd></div>
    <div><dt>credit of turns</dt><dd>${spread.length ? `${signed(Math.min(...spread.map(([low]) => low)))} to ${signed(Math.max(...spread.map(([, high]) => high)))}` : "none"}</dd></div>
    <div><dt>standard deviation of reward</dt><dd>${say(spreadOfPay)}${spreadOfPay === 0 ? html` <span class="badge">silent: all were paid the same</span>` : null}</dd></div>
    <div><dt>dropped</dt><dd>${dropped.length ? dropped.map(([why, n]) => `${n}: ${why}`).join("; ") : "none"}</dd></div></dl></article>`;
};
const StepPage = ({ run, step, phase }) => {
  useTitle(`step ${step}, ${run.name}`);
  const phases = useMemo(() => phasesOf(run), [run]),
    index = phases.findIndex((one) => one.step === step && one.phase === phase),
    [cursor, setCursor] = useState(0),
    [shown, setShown] = useState(60);
  const groups = useMemo(() => {
    const found = new Map();
    for (const row of phases[index]?.rows ?? [])
      (found.get(row.group) ?? found.set(row.group, []).get(row.group)).push(row);
    return [...found.values()];
  }, [run, index]);
  useKeys({
    move: (by) =>
      setCursor((at) => {
        const next = Math.max(0, Math.min(groups.length - 1, at + by));
        document
          .querySelector(`[data-item="${CSS.escape(groups[next]?.[0].group ?? "")}"]`)
          ?.scrollIntoView({ block: "nearest" });
        return next;
      }),
    open: () => {
      if (groups[cursor]) location.hash = episodeLink(run.id, groups[cursor][0].id);
    },
    side: (by) => {
      const next = phases[index + by];
      if (next) location.hash = link("run", run.id, "step", next.step, next.phase);
    },
  });
  if (index < 0) return html`<${Missing} what=${`step ${step}, ${phase}`} run=${run} />`;
  const { rows } = phases[index],
    before = phases[index - 1],
    after = phases[index + 1],
    where = (one) => link("run", run.id, "step", one.step, one.phase);
  return html`<h1>Step ${step}, ${phase}</h1>
    <p>${before ? html`<a href=${where(before)}>← step ${before.step}, ${before.phase}</a>` : null} ${after ? html`<a href=${where(after)}>step ${after.step}, ${after.phase} →</a>` : null}</p>
    <p>${plural(groups.length, "group")}, ${plural(rows.length, "episode")}, success ${share(successOf(rows))}, paid ${say(mean(rows.map((row) => row.paid)))} on average; ${rows.filter((row) => row.dropped).length} dropped.</p>
    ${run.alarms.filter((alarm) => alarm.step === step && phase === "train").map((alarm) => html`<p class="warning"><strong>${alarm.name}</strong>: ${alarm.sentence}</p>`)}
    <p><${Command} words=${["show", run.folder, "--step", step]} /> <${Command} words=${["replay", run.folder, "--step", step, "--phase", phase]} /></p>
    ${groups.slice(0, shown).map((group, i) => html`<${Group} key=${group[0].group} run=${run} rows=${group} at=${i === cursor} />`)}
    ${groups.length > shown ? html`<button type="button" onClick=${() => setShown(shown + 200)}>show more of ${groups.length} groups</button>` : null}`;
};
const Missing = ({ what, run }) =>
  html`<h1>Not here</h1><p>${what} is not recorded in ${run ? html`<a href=${link("run", run.id)}>${run.name}</a>` : "this page"}.</p>`;
