// The frame: which page the address names, the keys, light and dark, and asking again while a run writes.
const routeOf = () => {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  let parts;
  try {
    parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    parts = ["nowhere"];
  }
  return { parts, query };
};

const HomePage = ({ index }) => {
  const [chosen, choose] = useState([]);
  useTitle("runs");
  useKeys({ open: () => {} });
  return html`<h1>Runs</h1>${index.problems.map((line) => html`<p class="warning">${line}</p>`)}
  ${
    index.runs.length === 0
      ? html`<p>No run is in <code>${index.folder}</code>. Make one: <${Command} words=${["init", "my.toml"]} />, then <${Command} words=${["train", "my.toml"]} />; this page shows it as it writes.</p>`
      : html`
  <div class="scroll" tabindex="0" role="region" aria-label="runs"><table><thead><tr><th scope="col">compare</th><th scope="col">run</th><th scope="col">state</th></tr></thead><tbody>${index.runs.map((run) => html`<tr><td><input type="checkbox" aria-label=${"compare " + run.name} checked=${chosen.includes(run.id)} onChange=${() => choose(chosen.includes(run.id) ? chosen.filter((one) => one !== run.id) : [...chosen, run.id].slice(-2))} /></td><td><a href=${link("run", run.id)}>${run.name}</a></td><td>${run.state}</td></tr>`)}</tbody></table></div>
  ${chosen.length === 2 ? html`<p><a href=${link("compare", ...chosen)}>compare ${chosen[0]} with ${chosen[1]}</a></p>` : index.runs.length > 1 ? html`<p class="dim">Choose two to compare them.</p>` : null}`
  }`;
};

const RunPages = ({ id, parts, query, version, index }) => {
  const found = useLoaded(async () => opened(await source.run(id)), [id], version);
  const run = found.value;
  if (found.error) return html`<h1>${id}</h1><p class="warning" role="alert">${String(found.error.message)}</p>`;
  if (!run) return found.waiting ? html`<p>reading …</p>` : html`<${Missing} what=${`run ${id}`} />`;
  const [kind, one, two, three] = parts;
  const page = !kind
    ? html`<${RunPage} run=${run} />`
    : kind === "step"
      ? html`<${StepPage} key=${`${one} ${two}`} run=${run} step=${Number(one)} phase=${two} />`
      : kind === "episode"
        ? html`<${EpisodePage} run=${run} id=${one} at=${two === "turn" ? Number(three) : undefined} />`
        : kind === "task"
          ? html`<${TaskPage} run=${run} task=${one} />`
          : kind === "find"
            ? html`<${FindPage} run=${run} query=${query} />`
            : html`<${Missing} what="this page" run=${run} />`;
  const others = index.runs.filter((other) => other.id !== id);
  return html`<nav aria-label="pages of the run" class="tabs"><a href=${link("run", id)} aria-current=${kind ? undefined : "page"}>${run.name}</a><a href=${link("run", id, "find")} aria-current=${kind === "find" ? "page" : undefined}>find</a>${others.length ? html`<a href=${link("compare", others[0].id, id)}>compare</a>` : null}</nav>
  ${run.left_out ? html`<p class="warning">This file holds the turns of ${run.kept} of ${run.kept + run.left_out} groups, a sample that fits ${run.limit}. Lists, curves and filters are about all episodes. <${Command} words=${["view", run.folder]} /> shows every turn.</p>` : null}${page}`;
};

const Help = ({ close }) => {
  const box = useRef(null);
  useEffect(() => {
    box.current.showModal();
  }, []);
  return html`<dialog ref=${box} onClose=${close} aria-labelledby="keys"><h2 id="keys">Keys</h2><dl class="keys">${[
    ["j, k", "next and previous row, group or turn"],
    ["Enter", "open the row"],
    ["[, ]", "previous and next sibling or step"],
    ["/", "find episodes"],
    ["u", "up: from an episode to its step, to its run"],
    ["t", "light or dark"],
    ["?", "these keys"],
    ["Esc", "close"],
  ].map(
    ([key, what]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`,
  )}</dl><form method="dialog"><button>close</button></form></dialog>`;
};

const nextTheme = () => {
  const root = document.documentElement,
    dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
};

const App = () => {
  const [index, setIndex] = useState(null),
    [error, setError] = useState(null),
    [route, setRoute] = useState(routeOf()),
    [help, setHelp] = useState(false),
    [, repaint] = useState(0);
  useEffect(() => {
    let timer;
    const ask = async () => {
      try {
        const found = await source.index();
        setIndex((old) => (JSON.stringify(old) === JSON.stringify(found) ? old : found));
        setError(null);
      } catch (problem) {
        setError(problem);
      }
      if (source.live) timer = setTimeout(ask, 2000);
    };
    ask();
    return () => clearTimeout(timer);
  }, []);
  const at = index?.runs.length === 1 && !route.parts.length && !source.live ? ["run", index.runs[0].id] : route.parts;
  const path = at.slice(0, 4).join(" ");
  useEffect(() => {
    const changed = () => setRoute(routeOf());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  useLayoutEffect(() => {
    scrollTo(0, 0);
  }, [path]);
  const theme = () => {
    nextTheme();
    repaint((n) => n + 1);
  };
  useEffect(() => {
    const key = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const inside = event.target.closest?.("input, select, textarea, dialog, button, a, summary");
      if (event.target.closest?.("input, select, textarea, dialog") && event.key !== "Escape") return;
      const run = routeOf().parts[0] === "run" ? routeOf().parts[1] : index?.runs[0]?.id;
      const does = {
        j: () => press("move", 1),
        k: () => press("move", -1),
        "[": () => press("side", -1),
        "]": () => press("side", 1),
        Enter: () => !inside && press("open"),
        "?": () => setHelp(true),
        t: theme,
        "/": () => {
          const box = document.getElementById("search");
          if (box) box.focus();
          else if (run !== undefined) {
            searching.wanted = true;
            location.hash = link("run", run, "find");
          }
        },
        u: () => {
          const up = document.querySelector("main p a[href*='/step/']");
          const { parts } = routeOf();
          location.hash =
            parts[2] === "episode" && up ? up.getAttribute("href") : parts[2] ? link("run", parts[1]) : "#/";
        },
      }[event.key];
      if (does && does() !== false) {
        if ("/?jk[]".includes(event.key)) event.preventDefault();
      }
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, [index]);
  const [kind, ...rest] = at;
  const page = !index
    ? html`<p>reading …</p>`
    : !kind
      ? html`<${HomePage} index=${index} />`
      : kind === "run"
        ? html`<${RunPages} key=${rest[0]} id=${rest[0]} parts=${rest.slice(1)} query=${route.query} index=${index} version=${index.runs.find((run) => run.id === rest[0])?.version} />`
        : kind === "compare"
          ? html`<${ComparePage} key=${rest.join()} index=${index} a=${rest[0]} b=${rest[1]} />`
          : kind === "beside"
            ? html`<${BesidePage} a=${rest[0]} one=${rest[1]} b=${rest[2]} other=${rest[3]} />`
            : html`<${Missing} what="this page" />`;
  return html`<a class="skip" href="#main" onClick=${(event) => {
    event.preventDefault();
    document.getElementById("main").focus();
  }}>to the page</a>
  <header><a class="brand" href="#/">turngate</a>${
    index && index.runs.length > 1
      ? html`<a href="#/runs" onClick=${(event) => {
          event.preventDefault();
          location.hash = "#/";
        }}>${plural(index.runs.length, "run")}</a>`
      : null
  }<span class="gap"></span><button type="button" onClick=${theme} aria-label="light or dark">◐</button><button type="button" onClick=${() => setHelp(true)} aria-label="keys">?</button></header>
  <main id="main" tabindex="-1">${error ? html`<p class="warning" role="alert">The page could not be read: ${String(error.message)}</p>` : null}${page}</main>
  ${help ? html`<${Help} close=${() => setHelp(false)} />` : null}`;
};

render(html`<${App} />`, document.getElementById("app"));
