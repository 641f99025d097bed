// Runs first in every document, in the page's own world: time stands still until it is moved, randomness comes from a
// seed, nothing moves by itself. CHANNEL is a secret name of an event by which the engine speaks to this script.
(channel, start) => {
  const real = {
    Date, reportError, setTimeout, Event, eval: globalThis.eval, document: globalThis.document,
    apply: Reflect.apply, construct: Reflect.construct, floor: Math.floor, max: Math.max, ceil: Math.ceil,
  };
  let now = start, opened = start, seed = "";
  try {
    const elder = globalThis.opener ?? (globalThis.parent !== globalThis ? globalThis.parent : null);
    if (elder) now = opened = elder.Date.now();
  } catch { /* another origin: its time comes with the first move */ }

  // --- timers: a list ordered by (due, number); the engine fires them one by one, so that promises settle in between
  let timers = [], number = 0;
  const add = (call, args, delay, every) => {
    const timer = { id: ++number, due: now + delay, call, args, every };
    let at = timers.length;
    while (at > 0 && timers[at - 1].due > timer.due) at--;
    timers.splice(at, 0, timer);
    return timer.id;
  };
  const remove = (id) => { timers = timers.filter((timer) => timer.id !== Number(id)); };
  const wait = (delay) => real.max(1, real.floor(Number(delay)) || 0);
  const fire = () => {
    const timer = timers.shift();
    now = real.max(now, timer.due);
    if (timer.every) {
      const id = timer.id;
      add(timer.call, timer.args, timer.every, timer.every);
      const again = timers.find((other) => other.id === number);
      again.id = id;
    }
    try {
      if (typeof timer.call === "function") real.apply(timer.call, globalThis, timer.args());
      else real.eval(String(timer.call));
    } catch (error) { real.reportError(error); }
  };
  const listed = (args) => () => args;
  const frame = () => 16 - (now - opened) % 16;
  const put = (name, value, on = globalThis) =>
    Object.defineProperty(on, name, { value, writable: true, configurable: true, enumerable: true });
  put("setTimeout", function setTimeout(call, delay, ...args) { return add(call, listed(args), wait(delay), 0); });
  put("setInterval", function setInterval(call, delay, ...args) {
    return add(call, listed(args), wait(delay), wait(delay));
  });
  put("requestAnimationFrame", function requestAnimationFrame(call) {
    return add(call, () => [now - opened], frame(), 0);
  });
  put("requestIdleCallback", function requestIdleCallback(call) {
    return add(call, () => [{ didTimeout: false, timeRemaining: () => 10 }], 1, 0);
  });
  for (const name of ["clearTimeout", "clearInterval", "cancelAnimationFrame", "cancelIdleCallback"]) put(name, remove);

  // --- the time
  const Steady = function Date(...args) {
    if (!new.target) return new real.Date(now).toString();
    return real.construct(real.Date, args.length ? args : [now], new.target === Steady ? real.Date : new.target);
  };
  Object.defineProperties(Steady, {
    length: { value: 7 }, prototype: { value: real.Date.prototype, writable: false },
    now: { value: () => now, writable: true, configurable: true },
    parse: { value: real.Date.parse, writable: true, configurable: true },
    UTC: { value: real.Date.UTC, writable: true, configurable: true },
  });
  Object.defineProperty(real.Date.prototype, "constructor", { value: Steady, writable: true, configurable: true });
  Object.defineProperty(globalThis, "Date", { value: Steady, writable: true, configurable: true });
  const getter = (proto, name, get) => Object.defineProperty(proto, name, { get, configurable: true, enumerable: true });
  put("now", () => now - opened, Performance.prototype);
  getter(Performance.prototype, "timeOrigin", () => opened);
  for (const name of ["getEntries", "getEntriesByType", "getEntriesByName"]) put(name, () => [], Performance.prototype);
  getter(Event.prototype, "timeStamp", () => now - opened);
  getter(Document.prototype, "lastModified", () => "01/01/2026 00:00:00");
  const formats = Intl.DateTimeFormat.prototype;
  const format = Object.getOwnPropertyDescriptor(formats, "format").get, parts = formats.formatToParts;
  getter(formats, "format", function () {
    const bound = real.apply(format, this, []);
    return (date) => bound(date === undefined ? now : date);
  });
  put("formatToParts", function formatToParts(date) {
    return real.apply(parts, this, [date === undefined ? now : date]);
  }, formats);

  // --- randomness: sfc32 from a hash of the seed, the address and the time at which the document opened
  let a = 0, b = 0, c = 0, d = 1;
  const next = () => {
    const t = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0; a = b ^ (b >>> 9); b = (c + (c << 3)) | 0; c = ((c << 21) | (c >>> 11)) + t | 0;
    return t >>> 0;
  };
  const sow = () => {
    const text = `${seed}|${real.document.URL}|${opened}`;
    const words = [0x9e3779b9, 0x243f6a88, 0xb7e15162];
    for (let i = 0; i < text.length; i++)
      for (let j = 0; j < 3; j++) words[j] = Math.imul(words[j] ^ text.charCodeAt(i), 0x01000193 + 2 * j) | 0;
    [a, b, c] = words; d = 1;
    for (let i = 0; i < 15; i++) next();
  };
  sow();
  put("random", function random() { return ((next() >>> 5) * 67108864 + (next() >>> 6)) / 9007199254740992; }, Math);
  put("getRandomValues", function getRandomValues(array) {
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    for (let i = 0; i < bytes.length; i++) bytes[i] = next() & 255;
    return array;
  }, Crypto.prototype);
  put("randomUUID", function randomUUID() {
    const hex = Array.from({ length: 32 }, () => (next() & 15).toString(16));
    hex[12] = "4"; hex[16] = (8 + (next() & 3)).toString(16);
    return hex.join("").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  }, Crypto.prototype);
  getter(Navigator.prototype, "hardwareConcurrency", () => 4);

  // --- nothing moves by itself, nothing opens a window of the system
  const sheet = new CSSStyleSheet();
  sheet.replaceSync("*,*::before,*::after{transition:none!important;animation-duration:0s!important;" +
    "animation-delay:0s!important;animation-iteration-count:1!important;scroll-behavior:auto!important;" +
    "caret-color:transparent!important}");
  real.document.adoptedStyleSheets.push(sheet);
  const animate = Element.prototype.animate;
  put("animate", function (...args) {
    const animation = real.apply(animate, this, args);
    try { animation.finish(); } catch { animation.cancel(); } // one without end cannot be finished
    return animation;
  }, Element.prototype);
  put("print", () => {});
  put("requestFullscreen", () => Promise.reject(new TypeError("fullscreen is off")), Element.prototype);
  for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "showOpenFilePicker", "showSaveFilePicker",
    "showDirectoryPicker"]) delete globalThis[name];

  // --- what the engine says: "set:TIME:SEED" once per document, "to:TIME" fires the next timer due until then. The
  // event is refused (preventDefault) as long as another timer is due.
  globalThis.addEventListener(channel, (event) => {
    event.stopImmediatePropagation();
    const [verb, time, ...rest] = event.detail.split(":");
    if (verb === "set") { now = opened = Number(time); seed = rest.join(":"); sow(); return; }
    const target = Number(time);
    if (timers.length && timers[0].due <= target) fire();
    if (timers.length && timers[0].due <= target) event.preventDefault();
    else now = real.max(now, target);
  }, true);
}
