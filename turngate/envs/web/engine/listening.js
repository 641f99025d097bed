// Hears what a person does in a page, in a world of its own, and says each thing to the engine (``listening.py``).
// An element is named by its place: the numbers of the children on the way to it, a list for each document or shadow root.
(() => {
  if (globalThis.turngateListens) return;
  globalThis.turngateListens = true;
  const say = (kind, more) => turngateHeard(JSON.stringify({ kind, ...more }));
  const place = (el) => {
    const hops = [];
    let numbers = [];
    for (let node = el; node;) {
      const parent = node.parentNode;
      if (!parent) return null;
      numbers.unshift([...parent.children].indexOf(node));
      if (parent.nodeType === 1) { node = parent; continue; }
      hops.unshift(numbers);
      numbers = [];
      if (parent.nodeType === 11) { node = parent.host; continue; }
      if (window === top) break;
      let frame = null;
      try { frame = parent.defaultView.frameElement; } catch { /* another origin */ }
      if (!frame) return null;
      node = frame;
    }
    return hops;
  };
  const about = (kind, el, more) => { const path = place(el); path ? say(kind, { path, ...more }) : say("lost", { text: kind }); };
  const target = (event) => { const first = event.composedPath()[0]; return first.nodeType === 1 ? first : first.parentElement ?? document.documentElement; };
  const PICKED = ["color", "date", "time", "datetime-local", "month", "range", "week"];
  const NO_TEXT = ["checkbox", "radio", "button", "submit", "reset", "image", "file", "hidden"];
  const isInput = (el) => el.localName === "input";
  const isText = (el) => el.localName === "textarea" || isInput(el) && !NO_TEXT.includes(el.type);
  const shown = (el) => el.getClientRects().length > 0 && getComputedStyle(el).visibility === "visible";
  const editor = (el) => { let found = null; for (let node = el; node && node.isContentEditable; node = node.parentElement) found = node; return found; };
  const hear = (kind, then) => addEventListener(kind, (event) => { if (event.isTrusted) then(event, target(event)); }, { capture: true, passive: true });
  let labelled = null, labelledAt = 0;

  hear("click", (event, el) => {
    if (event.button || !event.detail || el.closest("select, option")) return; // detail 0: by a key, which is heard itself
    if (isInput(el) && PICKED.includes(el.type)) return; // its value is heard
    if (el === labelled && event.timeStamp - labelledAt < 100) return; // the label has sent its click on
    const control = el.closest("label")?.control;
    if (control && control !== el && !el.closest("a, button, input, textarea")) {
      labelled = control;
      labelledAt = event.timeStamp;
      if (shown(control)) el = control;
    }
    about("click", el, { field: isText(el) || editor(el) !== null });
  });
  hear("input", (event, el) => {
    if (el.localName === "select" || isInput(el) && NO_TEXT.includes(el.type)) return;
    if (isText(el)) about("fill", el, { text: el.value });
    else if (editor(el)) about("fill", editor(el), { text: editor(el).innerText });
  });
  hear("change", (event, el) => {
    if (el.localName === "select") about("select", el, { text: [...el.selectedOptions].map((one) => one.text).join("\n") });
  });
  hear("keydown", (event, el) => {
    if (["Shift", "Control", "Alt", "Meta", "CapsLock", "Dead", "Process", "Unidentified"].includes(event.key)) return;
    if (event.isComposing || el.localName === "select") return;
    const arrows = ["ArrowUp", "ArrowDown"].includes(event.key);
    const oneLine = isInput(el) && isText(el);
    if (oneLine && !(["Enter", "Escape", "Tab"].includes(event.key) || arrows && !PICKED.includes(el.type) && el.type !== "number")) return;
    if ((el.localName === "textarea" || editor(el)) && !["Escape", "Tab"].includes(event.key)) return; // its text is heard
    const held = [event.ctrlKey && "Control", event.altKey && "Alt", event.metaKey && "Meta", event.shiftKey && event.key.length > 1 && "Shift"];
    say("press", { text: [...held.filter(Boolean), event.key === " " ? "Space" : event.key].join("+") });
  });
  hear("wheel", (event, el) => {
    if (!event.deltaY || event.ctrlKey) return;
    let node = el;
    while (node && node !== document.documentElement && !(node.scrollHeight > node.clientHeight && /auto|scroll/.test(getComputedStyle(node).overflowY))) node = node.parentElement;
    if (node && node !== document.documentElement && node !== document.body) about("scroll", node, { text: String(Math.round(event.deltaY)) });
    else say("scroll", { path: null, text: String(Math.round(event.deltaY)) });
  });
})();
