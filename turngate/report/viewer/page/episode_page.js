// Episode: its turns from top to bottom, with what each earned, was paid and was credited, and why.
const Facts = ({ facts }) =>
  facts.length
    ? html`<ul class="plain">${facts.map(([words, by]) => html`<li><span class=${"by " + by}>${by}</span> ${words}</li>`)}</ul>`
    : null;
const Ledger = ({ lines }) =>
  lines.length
    ? html`<ul class="plain">${lines.map((line) => html`<li class=${line.paid === line.earned ? "" : "cut"}>${line.words}</li>`)}</ul>`
    : null;

const SameState = ({ run, group, episode, turn, rows }) => {
  if (!turn.state) return null;
  const others = group.episodes.flatMap((one, i) =>
    one.id === episode.id
      ? []
      : one.turns
          .map((other, at) => ({ one, other, at, row: rows[i], i }))
          .filter(({ other }) => other.state === turn.state),
  );
  if (!others.length) return html`<p class="dim">No sibling was in this state.</p>`;
  return html`<details><summary>${plural(others.length, "sibling turn")} in the same state</summary><ul class="plain">${others.slice(0, 40).map(({ one, other, at, row, i }) => html`<li><a href=${episodeLink(run.id, one.id, at)}>sibling ${i + 1}, turn ${at}</a>: <code>${other.text.slice(0, 120)}</code> · credit ${signed(other.credit)} · ${row ? resultOf(row) : ""}</li>`)}</ul></details>`;
};

const Turn = ({ run, group, episode, index, rows, mode, scale }) => {
  const turn = episode.turns[index],
    before = index ? episode.turns[index - 1].seen : undefined;
  return html`<h3><a href=${episodeLink(run.id, episode.id, index)}>turn ${index}</a>${turn.shared ? html` <span class="dim">shared: before the branch</span>` : null}</h3>
  <div class="columns"><div>
    <h4>observed <span class="dim">${turn.observed}</span></h4><${Text} text=${turn.seen} against=${before} />
    ${turn.images.map((image) => (image ? html`<${Screenshot} image=${image} pointed=${turn.pointed} turn=${index} />` : html`<p class="dim">an image of a format that is not shown</p>`))}
    ${turn.hint ? html`<div class="hint"><h4>${turn.hint[0]} <span class="badge">${turn.stripped ? "stripped: not in the context that was learned from" : "kept: learned from with it"}</span></h4><${Text} text=${turn.hint[1]} /></div>` : null}
    <h4 class=${turn.forced ? "forced" : ""}>${turn.written}</h4><${Tokens} turn=${turn} mode=${mode} scale=${scale} />
    ${turn.act.map(([label, words]) => html`<div class=${label === "parse error" ? "cut" : ""}><h4>${label}</h4><${Text} text=${words} /></div>`)}
  </div><div>
    <h4>credit ${turn.credit === null ? "none" : signed(turn.credit)}${turn.tokens.credit ? ", the mean of its tokens" : ""} <span class="dim">reward ${signed(turn.reward)}</span></h4>
    ${turn.terms.length ? html`<div class="scroll" tabindex="0" role="region" aria-label=${`why this credit, turn ${index}`}><table><thead><tr><th scope="col">compared</th><th scope="col">adds</th><th scope="col">against</th></tr></thead><tbody>${turn.terms.map(([name, adds, n]) => html`<tr><td>${name}</td><td class="n">${n ? signed(adds) : "–"}</td><td class="n">${n ? plural(n, "other") : "none"}</td></tr>`)}</tbody></table></div>` : turn.credit === null ? null : html`<p class="dim">The rule does not say what its credit is the sum of.</p>`}
    ${turn.read.length ? html`<p class="dim">read by the rule: ${turn.read.map(([name, value], at) => html`${at ? ", " : ""}<code>${name}</code> ${value === null ? "–" : value.toPrecision(4)}`)}</p>` : null}
    ${turn.ledger.length ? html`<h4>earned → paid</h4><${Ledger} lines=${turn.ledger} />` : null}
    ${turn.facts.length ? html`<h4>measured</h4><${Facts} facts=${turn.facts} />` : null}
    <${SameState} run=${run} group=${group} episode=${episode} turn=${turn} rows=${rows} />
  </div></div>`;
};

const Screenshot = ({ image, pointed, turn }) => {
  const [size, setSize] = useState(null);
  return html`<div class="shot"><img src=${image} alt=${`what was seen before turn ${turn}`} onLoad=${(event) => setSize([event.target.naturalWidth, event.target.naturalHeight])} />${pointed && size ? html`<span class="ring" title="where the action pointed" style=${{ left: `${(100 * pointed[0]) / size[0]}%`, top: `${(100 * pointed[1]) / size[1]}%` }}></span>` : null}</div>`;
};

const Why = ({ run, episode }) => {
  const lines = [
    ...episode.turns.flatMap((turn, at) => turn.ledger.map((line) => ({ line, at }))),
    ...episode.ledger.map((line) => ({ line, at: null })),
  ];
  const most = Math.max(...lines.map(({ line }) => line.paid ?? 0));
  if (!lines.length) return html`<p>Nothing was earned or charged.</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="what was earned and paid"><table><thead><tr><th scope="col">where</th><th scope="col">component</th><th scope="col">earned</th><th scope="col">paid</th><th scope="col">gate that cut it</th></tr></thead><tbody>
  ${lines.slice(0, 400).map(({ line, at }) => html`<tr class=${line.paid !== line.earned ? "cut" : line.paid > 0 && line.paid === most ? "most" : ""}><td>${at === null ? "episode" : html`<a href=${episodeLink(run.id, episode.id, at)}>turn ${at}</a>`}</td><td>${line.kind} ${line.name}</td><td class="n">${signed(line.earned)}</td><td class="n">${signed(line.paid)}</td><td>${line.gate ? html`<code>${line.gate}</code> × ${say(line.factor)}` : line.factor !== 1 ? `× ${say(line.factor)}` : "–"}</td></tr>`)}</tbody></table></div>${lines.length > 400 ? html`<p class="dim">the first 400 of ${lines.length} lines; the turns have all</p>` : null}`;
};

const Timeline = ({ run, episode, scale }) =>
  episode.turns.some((turn) => turn.credit !== null)
    ? html`<nav class="timeline" aria-label="credit by turn">${episode.turns.map((turn, at) => html`<a href=${episodeLink(run.id, episode.id, at)} title=${`turn ${at}: credit ${signed(turn.credit)}`} class=${turn.credit > 0 ? "up" : "down"}><span class="unseen">turn ${at}, credit ${signed(turn.credit)}</span><i style=${{ height: `${turn.credit === null ? 0 : 2 + (24 * Math.abs(turn.credit)) / (scale || 1)}px` }}></i></a>`)}</nav>`
    : null;

const EpisodePage = ({ run, id, at }) => {
  const row = run.byId.get(id),
    [mode, setMode] = useState("advantage"),
    cursor = useRef(-1);
  const {
    value: group,
    error,
    waiting,
  } = useLoaded(() => (row ? source.group(run.id, row.group) : Promise.resolve(null)), [run.id, id], run.version);
  useTitle(`${id}, ${run.name}`);
  const rows = row ? run.groups.get(row.group) : [],
    place = rows.findIndex((one) => one.id === id),
    episode = group?.episodes.find((one) => one.id === id);
  const show = (turn) => {
    cursor.current = turn;
    const element = document.getElementById(`turn-${turn}`);
    element?.scrollIntoView({ block: "start" });
    document.querySelectorAll(".turn.at").forEach((one) => one.classList.remove("at"));
    element?.classList.add("at");
  };
  useEffect(() => {
    if (!episode) return;
    if (at === undefined) {
      cursor.current = -1;
      return;
    }
    show(at);
    const again = setTimeout(() => show(at), 120);
    return () => clearTimeout(again);
  }, [episode?.id, at]);
  useKeys({
    move: (by) => {
      if (episode) show(Math.max(0, Math.min(episode.turns.length - 1, cursor.current + by)));
    },
    side: (by) => {
      const next = rows[place + by];
      if (next) location.hash = episodeLink(run.id, next.id);
    },
  });
  if (!row) return html`<${Missing} what=${`episode ${id}`} run=${run} />`;
  const scale = group
    ? group.episodes
        .flatMap((one) => one.turns.flatMap((turn) => [turn.credit, ...(turn.tokens.credit ?? [])]))
        .reduce((most, credit) => Math.max(most, Math.abs(credit ?? 0)), 1e-9)
    : 1;
  const alarms = run.alarmed.get(id) ?? [];
  return html`<h1 class="id">Episode ${id}</h1>
    <p><${Result} row=${row} /> in <a href=${link("run", run.id, "step", row.step, row.phase)}>step ${row.step}, ${row.phase}</a>, sibling ${place + 1} of ${rows.length}, task <a href=${link("run", run.id, "task", row.task)}>${row.task}</a>${row.help ? html`, <strong>had help: ${row.help}</strong>` : null}
      ${place > 0 ? html` <a href=${episodeLink(run.id, rows[place - 1].id)}>← sibling</a>` : null}${place < rows.length - 1 ? html` <a href=${episodeLink(run.id, rows[place + 1].id)}>sibling →</a>` : null}
      ${rows.length > 1 ? html` · <a href=${link("beside", run.id, id, run.id, rows[place ? 0 : 1].id)}>beside a sibling</a>` : null}</p>
    ${alarms.map((name) => html`<p class="warning">alarm <strong>${name}</strong> names this episode</p>`)}
    <details><summary>commands</summary><p><${Command} words=${["show", run.folder, "--trajectory", id]} /></p><p><${Command} words=${["replay", run.folder, "--step", row.step, "--phase", row.phase]} /></p><p><${Command} words=${["replay", run.folder, "--branch-at", 0, "--episode", id, "--policy", "MODEL"]} /></p><p><${Copy} text=${id} /></p></details>
    ${
      error
        ? html`<p class="warning" role="alert">${String(error.message)}</p>`
        : waiting
          ? html`<p>reading …</p>`
          : !episode
            ? html`<p class="warning">The turns of this episode are not in this file: it holds a sample. <${Command} words=${["view", run.folder]} /> shows them all.</p>`
            : html`
    ${episode.notes.map((note) => html`<p class="warning">${note}</p>`)}${episode.dropped ? html`<p class="warning">dropped: ${episode.dropped}</p>` : null}
    <p><strong>${episode.total}</strong>; ending: ${episode.end}</p>
    ${episode.unusable ? html`<p class="warning">unusable: ${episode.unusable}</p>` : null}${episode.missing ? html`<p class="warning">missing: ${episode.missing}</p>` : null}
    ${episode.parent ? html`<p>branched from <a href=${episodeLink(run.id, episode.parent[0], episode.parent[1])}>${episode.parent[0]}</a> at turn ${episode.parent[1]}</p>` : null}
    ${episode.guided ? html`<p class="hint">guided: ${episode.guided}${episode.forced ? `; forced: ${episode.forced}` : ""}. ${hintPlaces(run, episode)}</p>` : null}
    <h2 id="why">What it earned and was paid</h2><${Why} run=${run} episode=${episode} /><${Facts} facts=${episode.facts} />
    <h2>Turns</h2><details><summary>prompt</summary><${Text} text=${group.prompt} /></details>
    <p><label>shade tokens by <select value=${mode} onChange=${(event) => setMode(event.target.value)}><option value="advantage">advantage: blue good, orange bad</option><option value="surprise">surprise: how unlikely each was</option><option value="plain">nothing</option></select></label></p>
    <${Timeline} run=${run} episode=${episode} scale=${scale} />
    ${episode.turns.map((turn, i) => html`<${Lazy} key=${`${id} ${i}`} id=${`turn-${i}`} label=${`turn ${i}`} estimate=${320}>${() => html`<${Turn} run=${run} group=${group} episode=${episode} index=${i} rows=${rows} mode=${mode} scale=${scale} />`}<//>`)}
    ${episode.turns.length ? null : html`<p>The episode has no turn.</p>`}
    ${episode.unplayed ? html`<div class="hint"><h4>hint for turn ${episode.unplayed[0]}, which was not played</h4><${Text} text=${episode.unplayed[1]} /></div>` : null}`
    }`;
};
const hintPlaces = (run, episode) => {
  const places = episode.turns.map((turn, i) => (turn.hint ? i : -1)).filter((i) => i >= 0);
  return places.length
    ? html`The hint stands before ${places.map((i) => html`<a href=${episodeLink(run.id, episode.id, i)}>turn ${i}</a> `)}and is ${episode.stripped ? "stripped from the context that is learned from" : "kept in the context that is learned from"}.`
    : null;
};
