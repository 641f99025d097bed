// Where the data comes from: elements of this file, or the server that served this page. Both answer the same questions.
const { h, render, Fragment } = preact;
const { useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback } = preactHooks;
const html = htm.bind(h);

const objectsOf = (columns) => {
  const names = Object.keys(columns),
    n = names.length ? columns[names[0]].length : 0,
    rows = new Array(n);
  for (let i = 0; i < n; i++) {
    const row = {};
    for (const name of names) row[name] = columns[name][i];
    rows[i] = row;
  }
  return rows;
};

const parsed = new Promise((done) =>
  document.readyState === "loading" ? document.addEventListener("DOMContentLoaded", done) : done(),
);

const inflated = async (element) => {
  const text = atob(element.textContent.trim()),
    bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
};

const fileSource = () => {
  const known = new Map();
  const part = (id) => {
    if (!known.has(id))
      known.set(
        id,
        (async () => {
          if (!document.getElementById(id)) await parsed;
          const element = document.getElementById(id);
          return element ? inflated(element) : null;
        })(),
      );
    return known.get(id);
  };
  const place = async (run) => (await part("index")).runs.findIndex((one) => one.id === run);
  const group = async (run, key) => {
    const id = `g-${await place(run)}-${key.replaceAll("/", "_")}`,
      found = await part(id);
    if (known.size > 60) known.delete([...known.keys()].find((one) => one.startsWith("g-")));
    return found;
  };
  return {
    live: false,
    index: () => part("index"),
    run: async (run) => {
      const at = await place(run);
      return at < 0 ? null : part(`r-${at}`);
    },
    group,
    compare: async (a, b) => (await part("index")).pairs.find((one) => one.a === a && one.b === b) ?? null,
    async find(run, text, keys, tell) {
      const found = new Set(),
        wanted = text.toLowerCase();
      for (let i = 0; i < keys.length; i++) {
        const one = await group(run, keys[i]);
        for (const episode of one?.episodes ?? [])
          if (JSON.stringify(episode).toLowerCase().includes(JSON.stringify(wanted).slice(1, -1)))
            found.add(episode.id);
        if (i % 20 === 0) {
          tell(i / keys.length);
          await new Promise((done) => setTimeout(done));
        }
      }
      return found;
    },
  };
};

const servedSource = () => {
  const known = new Map();
  const get = async (path, values) => {
    const answer = await fetch(`api/${path}?${new URLSearchParams(values)}`);
    if (answer.status === 404) return null;
    if (!answer.ok) throw new Error(`${answer.status} of ${path}: ${await answer.text()}`);
    return answer.json();
  };
  return {
    live: true,
    index: () => get("index", {}),
    run: (run) => get("run", { run }),
    group(run, key) {
      const name = `${run} ${key}`;
      if (!known.has(name)) known.set(name, get("group", { run, key }));
      if (known.size > 60) known.delete(known.keys().next().value);
      return known.get(name);
    },
    compare: (a, b) => get("compare", { a, b }),
    find: async (run, text) => new Set((await get("find", { run, text })).episodes),
  };
};

const source = document.documentElement.dataset.carrier === "server" ? servedSource() : fileSource();

// A run with what the pages look up in it.
const opened = (record) => {
  if (!record || record.byId) return record;
  const rows = objectsOf(record.rows);
  record.list = rows;
  record.byId = new Map();
  for (const row of rows) if (!record.byId.has(row.id) || row.phase === "train") record.byId.set(row.id, row);
  record.groups = new Map();
  for (const row of rows) (record.groups.get(row.group) ?? record.groups.set(row.group, []).get(row.group)).push(row);
  record.alarmed = new Map();
  for (const alarm of record.alarms)
    for (const id of alarm.trajectories) record.alarmed.set(id, [...(record.alarmed.get(id) ?? []), alarm.name]);
  return record;
};
