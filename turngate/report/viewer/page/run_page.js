// Run: what was asked, how it went, what alarmed, what it cost, what it was paid for.
const phasesOf = (run) => {
  const found = new Map();
  for (const row of run.list) {
    const key = `${row.step} ${row.phase}`;
    if (!found.has(key)) found.set(key, { step: row.step, phase: row.phase, rows: [] });
    found.get(key).rows.push(row);
  }
  return [...found.values()];
};
const successOf = (rows) => {
  const usable = rows.filter((row) => row.usable);
  return usable.length ? usable.filter((row) => row.success).length / usable.length : null;
};

const componentLines = (run) => {
  const steps = [...new Set(run.list.filter((row) => row.phase === "train").map((row) => row.step))].sort(
    (a, b) => a - b,
  );
  const bySteps = new Map(
    steps.map((step) => [step, run.list.filter((row) => row.step === step && row.phase === "train" && row.usable)]),
  );
  const names = [...new Set(run.list.flatMap((row) => Object.keys(row.parts)))];
  const line = (name, at) => steps.map((step) => mean(bySteps.get(step).map((row) => row.parts[name]?.[at] ?? 0)));
  return {
    steps,
    names,
    paid: names.map((name) => ({ label: name, y: line(name, 1) })),
    earned: names.map((name) => ({ label: name, y: line(name, 0) })),
  };
};

const Curves = ({ run }) => {
  const { step, values } = run.metrics,
    parts = useMemo(() => componentLines(run), [run]);
  const [chosen, choose] = useState("");
  const named = run.panels.filter(([name]) => values[name]);
  const picked = (prefix, suffix = "") =>
    Object.keys(values).filter(
      (name) => name.startsWith(prefix) && name.endsWith(suffix) && values[name].some((value) => value),
    );
  const drops = picked("drop/", "_trajectories"),
    kl = picked("learner/update_kl"),
    names = Object.keys(values).sort();
  return html`<div class="charts">
    ${named.map(([name, title, unit, top]) => html`<${Chart} key=${name} title=${title} unit=${unit} top=${top} x=${step} lines=${[{ label: name, y: values[name] }]} />`)}
    ${parts.names.length ? html`<${Chart} title="Paid by component" unit="mean of usable episodes" x=${parts.steps} lines=${parts.paid} /><${Chart} title="Earned by component, before gates" unit="mean of usable episodes" x=${parts.steps} lines=${parts.earned} />` : null}
    ${kl.map((name) => html`<${Chart} key=${name} title="Size of the update" unit="KL, nats per token" x=${step} lines=${[{ label: name, y: values[name] }]} />`)}
    ${drops.length ? html`<${Chart} title="Dropped" unit="trajectories" x=${step} lines=${drops.slice(0, 6).map((name) => ({ label: name.slice(5, -13), y: values[name] }))} />` : null}
    ${
      names.length
        ? html`<div class="any"><label>Any metric <select value=${chosen} onChange=${(event) => choose(event.target.value)}><option value="">choose …</option>${names.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
      ${chosen ? html`<${Chart} key=${chosen} title=${chosen} unit="" x=${step} lines=${[{ label: chosen, y: values[chosen] }]} />` : null}</div>`
        : null
    }
  </div>`;
};

const Alarms = ({ run }) =>
  run.alarms.length === 0
    ? html`<p>${run.silence}.</p>`
    : html`<ul class="alarms">${run.alarms.map(
        (alarm) => html`<li class=${alarm.severity}>
  <p><strong>${alarm.name}</strong> (${alarm.severity}), began in <a href=${link("run", run.id, "step", alarm.step, "train")}>step ${alarm.step}</a>: ${alarm.sentence}</p>
  <details><summary>evidence</summary><dl>${alarm.evidence.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl></details>
  ${alarm.trajectories.length ? html`<p>look at: ${alarm.trajectories.map((id) => html`<a href=${episodeLink(run.id, id)}>${id}</a> `)} · <a href=${`${link("run", run.id, "find")}?alarm=${encodeURIComponent(alarm.name)}`}>all it names</a></p>` : html`<p class="dim">it names no episode: it is about the whole step</p>`}</li>`,
      )}</ul>`;

const Cost = ({ run }) => {
  const { values } = run.metrics,
    sum = (name) => (values[name] ?? []).reduce((a, b) => a + (b ?? 0), 0);
  const stages = Object.keys(values)
    .filter((name) => name.startsWith("time/"))
    .map((name) => [name.slice(5, -2), sum(name)])
    .sort((a, b) => b[1] - a[1]);
  const total = stages.reduce((a, [, b]) => a + b, 0);
  const memory = [
    ["memory/process_gb", "memory of the process"],
    ["memory/device_gb", "of the fullest GPU"],
  ]
    .filter(([name]) => values[name])
    .map(([name, words]) => `${words} at most ${say(Math.max(...values[name].filter((one) => one !== null)))} GB`);
  return html`<p>${values["train/sampled_tokens"] ? `${sum("train/sampled_tokens").toLocaleString("en")} tokens sampled in training` : "tokens are not recorded"}; ${total ? `${say(total)} s in training steps` : "no times are recorded"}; ${memory.length ? memory.join(", ") : "memory is not recorded"}.</p>
    <ul class="bars">${stages.map(([name, seconds]) => html`<li><span>${name}</span><span class="bar"><i style=${{ width: `${(100 * seconds) / total}%` }}></i></span><span>${say(seconds)} s, ${share(seconds / total)}</span></li>`)}</ul>`;
};

const Rubrics = ({ run }) =>
  run.rubrics.length === 0
    ? html`<p>The rubric is not known here.</p>`
    : run.rubrics.map(
        (rubric) => html`<div>
  <h3>${rubric.label}: ${rubric.safe === null ? "not known here" : rubric.safe ? html`<span class="result solved">✓ safe</span>` : html`<span class="result not-solved">✗ unsafe</span>`}</h3>
  ${rubric.problem ? html`<p>${rubric.problem}</p>` : null}${rubric.unsafe.map((line) => html`<p class="warning">${line}</p>`)}
  ${rubric.rewards.length ? html`<${Table} label=${"components of " + rubric.label} cells=${[["component", "kind", "paid", "type", "reads"], ...rubric.rewards]} />` : null}
  ${rubric.gates.length ? html`<p>Gates, in this order:</p><ol>${rubric.gates.map(([name, told]) => html`<li><code>${name}</code>: ${told}</li>`)}</ol>` : rubric.problem ? null : html`<p>No gates: everything that is earned is paid.</p>`}
  <details><summary>bounds</summary><pre>${rubric.safety.join("\n")}</pre></details></div>`,
      );

const RunPage = ({ run }) => {
  useTitle(run.name);
  const phases = useMemo(() => phasesOf(run), [run]);
  return html`<h1>${run.name}</h1>
  <p class="dim">${run.state}${run.credit ? ` · credit ${run.credit}` : ""}</p>
  <p><${Copy} text=${run.folder} /> <${Command} words=${["report", run.folder]} /></p>
  <${Problems} run=${run} />
  <h2 id="success">Success on held-out tasks</h2>
  ${run.success.length ? run.success.map((table) => html`<h3>${table.title}</h3><${Table} label=${"success, " + table.title} cells=${table.cells} /><p class="dim">${table.note}</p>`) : html`<p>Nothing was evaluated yet.</p>`}
  ${run.overlap.map((line) => html`<p class="dim">${line}</p>`)}
  <h2 id="alarms">Alarms</h2>${run.usable.map((line) => html`<p class="warning">${line}</p>`)}<${Alarms} run=${run} />
  <h2 id="curves">Curves</h2><${Curves} run=${run} />
  <h2 id="steps">Steps</h2>
  ${
    phases.length
      ? html`<${Rows} label="steps" room=${380} rows=${phases} open=${(one) => link("run", run.id, "step", one.step, one.phase)} columns=${[
          [
            "step",
            (one) =>
              html`<a href=${link("run", run.id, "step", one.step, one.phase)}>step ${one.step}, ${one.phase}</a>`,
          ],
          ["groups", (one) => new Set(one.rows.map((row) => row.group)).size, "n"],
          ["episodes", (one) => one.rows.length, "n"],
          ["success", (one) => share(successOf(one.rows)), "n"],
          ["paid", (one) => say(mean(one.rows.map((row) => row.paid))), "n"],
          ["with help", (one) => one.rows.filter((row) => row.help).length, "n"],
          ["dropped", (one) => one.rows.filter((row) => row.dropped).length, "n"],
          ["unusable", (one) => one.rows.filter((row) => !row.usable).length, "n"],
        ]} />`
      : html`<p>No episode is recorded.</p>`
  }
  <h2 id="rubric">What was paid for</h2><${Rubrics} run=${run} />
  <h2 id="cost">Cost</h2><${Cost} run=${run} />
  <h2 id="asked">What was asked</h2>
  ${run.asked.changed.length ? html`<p class="dim">Settings that are not the default; a table of another type is told whole.</p><${Table} label="settings" cells=${[["setting", "value", "default"], ...run.asked.changed.map(([key, value, usual]) => [html`<code>${key}</code>`, value, usual || "–"])]} />` : run.asked.text ? html`<pre>${run.asked.text}</pre>` : html`<p>No settings are recorded.</p>`}`;
};

const Problems = ({ run }) =>
  run.problems.length
    ? html`<div class="problems" role="note"><h2>What could not be read</h2><ul>${run.problems.map((line) => html`<li>${line}</li>`)}</ul><p>Everything else is shown.</p></div>`
    : null;
