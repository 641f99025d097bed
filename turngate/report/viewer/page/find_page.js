// Task: all episodes of one task. Find: filters over all episodes of a run, and search in their texts.
const TaskPage = ({ run, task }) => {
  useTitle(`${task}, ${run.name}`);
  const rows = useMemo(() => run.list.filter((row) => row.task === task), [run, task]);
  const lines = useMemo(() => {
    const steps = [...new Set(rows.filter((row) => row.phase === "train").map((row) => row.step))].sort(
        (x, y) => x - y,
      ),
      of = (step) => rows.filter((row) => row.phase === "train" && row.step === step);
    return {
      steps,
      success: steps.map((step) => successOf(of(step))),
      paid: steps.map((step) => mean(of(step).map((row) => row.paid))),
      turns: steps.map((step) => mean(of(step).map((row) => row.turns))),
    };
  }, [rows]);
  if (!rows.length) return html`<${Missing} what=${`task ${task}`} run=${run} />`;
  return html`<h1>Task ${task}</h1><p>${plural(rows.length, "episode")} in ${plural(new Set(rows.map((row) => row.step)).size, "step")}; solved ${share(successOf(rows))}. <${Copy} text=${task} /></p>
  ${lines.steps.length > 1 ? html`<div class="charts"><${Chart} title="Success" unit="share of usable episodes" top=${1} x=${lines.steps} lines=${[{ label: "success", y: lines.success }]} /><${Chart} title="Paid" unit="mean" x=${lines.steps} lines=${[{ label: "paid", y: lines.paid }]} /><${Chart} title="Length" unit="turns" x=${lines.steps} lines=${[{ label: "turns", y: lines.turns }]} /></div>` : null}
  <${Rows} label="episodes of the task" rows=${rows} columns=${episodeColumns(run)} open=${(row) => episodeLink(run.id, row.id)} />`;
};

const matches = (run, wanted) => {
  const has = (text, part) => !part || text.toLowerCase().includes(part.toLowerCase());
  return run.list.filter(
    (row) =>
      has(row.task, wanted.task) &&
      (!wanted.ending || row.ending === wanted.ending) &&
      (!wanted.result || resultOf(row) === wanted.result) &&
      (!wanted.phase || row.phase === wanted.phase) &&
      (!wanted.gate || wanted.gate in row.gates) &&
      (!wanted.alarm || run.alarmed.get(row.id)?.includes(wanted.alarm)) &&
      (!wanted.help || (wanted.help === "with help") === Boolean(row.help)) &&
      (!wanted.dropped || row.dropped === wanted.dropped) &&
      has(row.id, wanted.id),
  );
};
const searching = { wanted: false }; // the key "/" leads here and into the search
const FindPage = ({ run, query }) => {
  useTitle(`find, ${run.name}`);
  useEffect(() => {
    if (searching.wanted) document.getElementById("search").focus();
    searching.wanted = false;
  }, []);
  const wanted = Object.fromEntries(new URLSearchParams(query)),
    [texts, setTexts] = useState(null),
    [progress, setProgress] = useState(null);
  const rows = useMemo(() => {
    const found = matches(run, wanted);
    return texts ? found.filter((row) => texts.found.has(row.id)) : found;
  }, [run, query, texts]);
  const change = (name, value) => {
    const values = new URLSearchParams(query);
    if (value) values.set(name, value);
    else values.delete(name);
    history.replaceState(null, "", `${link("run", run.id, "find")}?${values}`);
    dispatchEvent(new HashChangeEvent("hashchange"));
  };
  const search = async (event) => {
    event.preventDefault();
    const text = new FormData(event.currentTarget).get("text").trim();
    if (!text) {
      setTexts(null);
      return;
    }
    setProgress(0);
    const found = await source.find(run.id, text, [...run.groups.keys()], setProgress);
    setTexts({ text, found });
    setProgress(null);
  };
  const options = (name, values) =>
    html`<label>${name} <select value=${wanted[name] ?? ""} onChange=${(event) => change(name, event.target.value)}><option value="">any</option>${[
      ...new Set(values),
    ]
      .filter(Boolean)
      .sort()
      .map((value) => html`<option value=${value}>${value}</option>`)}</select></label>`;
  return html`<h1>Find episodes</h1>
  <p class="form"><label>task or part of it <input id="search" type="search" value=${wanted.task ?? ""} onInput=${(event) => change("task", event.target.value)} /></label>
    <label>id <input type="search" value=${wanted.id ?? ""} onInput=${(event) => change("id", event.target.value)} /></label>
    ${options("result", ["solved", "not solved", "unusable"])} ${options(
      "ending",
      run.list.map((row) => row.ending),
    )} ${options(
      "phase",
      run.list.map((row) => row.phase),
    )}
    ${options(
      "gate",
      run.list.flatMap((row) => Object.keys(row.gates)),
    )} ${options(
      "alarm",
      run.alarms.map((alarm) => alarm.name),
    )} ${options("help", ["with help", "without help"])} ${options(
      "dropped",
      run.list.map((row) => row.dropped),
    )}</p>
  <form class="form" onSubmit=${search}><label>text in turns, hints and evidence <input type="search" name="text" /></label> <button type="submit">search texts</button> ${progress !== null ? html`<span role="status">searched ${share(progress)}</span>` : texts ? html`<span role="status">“${texts.text}” is in ${plural(texts.found.size, "episode")}${run.left_out ? "; turns that are not in this file were not searched" : ""}</span>` : null}</form>
  <p role="status" id="found">${plural(rows.length, "episode")} of ${run.list.length}</p>
  <${Rows} label="episodes found" rows=${rows} columns=${[...episodeColumns(run).slice(0, 2), ["task", (row) => html`<a href=${link("run", run.id, "task", row.task)}>${row.task}</a>`], ...episodeColumns(run).slice(2)]} open=${(row) => episodeLink(run.id, row.id)} />`;
};
