"use strict";
(() => {
  const POLL_MS = 2000;
  const RETRY_MS = 30000; // a stream that was refused is tried again
  const LOST_MS = 15000; // the stream says something at least every ten seconds
  const DEPTH_MAX = 14;
  const ROW_PX = 28;
  const SVG = "http://www.w3.org/2000/svg";
  const $ = (id) => document.getElementById(id);
  let heard = 0; // when the last document came
  let polling = 0;
  let chosen = null; // "namespace\nhash" of the block that is explained
  let shown = null; // the block that is explained, as the advisor told it
  let gateways = []; // names
  let drawn = {}; // what each part was drawn from, so that what stays the same is left alone

  // ---- words ----

  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  const bytes = (n) => {
    let unit = 0;
    while (n >= 1024 && unit < UNITS.length - 1) { n /= 1024; unit++; }
    return (unit === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)) + " " + UNITS[unit];
  };
  const count = (n) => n >= 1e9 ? (n / 1e9).toFixed(1) + " G" : n >= 1e6 ? (n / 1e6).toFixed(1) + " M"
    : n >= 1e4 ? (n / 1e3).toFixed(1) + " k" : String(n);
  const percent = (part, whole) => whole === 0 ? "–" : (100 * part / whole).toFixed(part > 0 && part < whole / 100 ? 1 : 0) + " %";
  const SPANS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const span = (s) => {
    for (const [name, size] of SPANS)
      if (s >= size) return Math.round(s / size) + " " + name;
    return "0 s";
  };
  const sum = (list) => list.reduce((a, b) => a + b, 0);

  // ---- elements; text is only ever set as text ----

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {}))
      if (value !== null) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }
  function draw(tag, attributes, text) {
    const element = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  }
  // Draw a part only when what it is drawn from changed: focus and selection stay where they are.
  function part(name, source, paint) {
    const text = JSON.stringify(source);
    if (drawn[name] === text) return;
    drawn[name] = text;
    paint();
  }
  function command(text) {
    const button = make("button", {type: "button", "aria-label": "Copy: " + text}, "Copy");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch { // not a secure context: the text is selected instead
        const range = document.createRange();
        range.selectNodeContents(button.previousSibling);
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    return make("span", {class: "command"}, make("code", {}, text), button);
  }

  // ---- verdict and troubles ----

  function showVerdict(verdict) {
    $("verdict").className = verdict.ok ? "good" : "bad";
    $("verdict-text").textContent = verdict.text;
    $("verdict-command").replaceChildren(...(verdict.command ? [command(verdict.command)] : []));
  }
  function showTroubles(troubles) {
    $("troubles").hidden = troubles.length < 2; // one is the verdict
    $("troubles-list").replaceChildren(...troubles.map((trouble) =>
      make("li", {}, make("span", {}, trouble.text), command(trouble.command))));
  }

  // ---- tiers ----

  function bar(kind, share) {
    const fill = make("div", {class: "fill " + kind});
    fill.style.width = share > 0 ? `max(2px, ${Math.min(100, 100 * share)}%)` : "0"; // a little is not nothing
    return make("div", {class: "bar"}, fill);
  }
  function rowOf(name, text, ...more) {
    return make("div", {class: "row"}, make("div", {class: "row-head"}, make("b", {}, name), make("span", {class: "quiet"}, text)), ...more);
  }
  const RUNGS = ["hot", "warm", "cold", "far"];
  const PLACES = {hot: "Hot volume", warm: "Second volume", cold: "Bucket", far: "Far bucket", gone: "deleted"};
  const hasRung = (tiers, rung) => tiers.some((tier) => tier.rung === rung);
  function showTiers(tiers) {
    const most = Math.max(1, ...tiers.map((tier) => tier.used_bytes));
    const stack = [...tiers].sort((a, b) => RUNGS.indexOf(a.rung) - RUNGS.indexOf(b.rung));
    let marks = false;
    if (tiers.length === 0) return;
    $("tiers").replaceChildren(...stack.map((tier) => {
      const capped = tier.limit_bytes > 0; // of which the watermarks are shares
      const track = bar(tier.rung, capped ? tier.used_bytes / tier.limit_bytes : 0.9 * tier.used_bytes / most);
      let text = bytes(tier.used_bytes) + (capped ? " of " + bytes(tier.limit_bytes) + " · " + percent(tier.used_bytes, tier.limit_bytes) : ", no cap");
      text += " · " + count(tier.blocks) + " blocks";
      if (tier.stuck) text += " · stuck";
      else if (tier.draining) text += " · drains";
      track.setAttribute("role", "img");
      track.setAttribute("aria-label", tier.name + ": " + text);
      for (const [kind, ppm] of [["", tier.start_ppm], [" stop", tier.stop_ppm]])
        if (ppm > 0) {
          const mark = make("span", {class: "water" + kind, title: (kind ? "draining ends at " : "draining begins at ") + ppm / 10000 + " %"});
          mark.style.left = ppm / 10000 + "%";
          track.append(mark);
          marks = true;
        }
      return rowOf(tier.name, PLACES[tier.rung] + " · " + text, track);
    }));
    $("tiers-key").hidden = !marks;
  }

  // ---- reads ----

  // Columns that stand on each other, a minute each.
  function columns(series, height, label) {
    const svg = draw("svg", {viewBox: "0 0 600 " + height, preserveAspectRatio: "none", class: "spark", role: "img", "aria-label": label});
    const length = series[0].values.length;
    const top = Math.max(1, ...series[0].values.map((_, i) => sum(series.map((one) => one.values[i]))));
    for (let i = 0; i < length; i++) {
      let below = height - 1;
      for (const one of series) {
        const size = one.values[i] === 0 ? 0 : Math.max(1.5, (height - 2) * one.values[i] / top);
        if (size > 0) svg.append(draw("rect", {class: one.kind, x: 600 * i / length + 0.5, y: below - size, width: 600 / length - 1, height: size}));
        below -= size;
      }
    }
    svg.append(draw("line", {class: "axis", x1: 0, x2: 600, y1: height - 0.5, y2: height - 0.5}));
    return svg;
  }
  function showReads(reads, minutes, tiers) {
    const all = reads.hot + reads.cold + reads.miss;
    const [warm, far] = [hasRung(tiers, "warm"), hasRung(tiers, "far")];
    const steps = [["hot", warm ? "Volumes" : "Hot volume", reads.hot,
      ", " + bytes(reads.hot_bytes) + (warm ? " and " + bytes(reads.warm_bytes) + " of second ones" : "")],
      ["cold", far ? "Buckets" : "Bucket", reads.cold, ", " + bytes(reads.cold_bytes)],
      ["miss", "Nowhere: it is computed again", reads.miss, ""]];
    $("ladder").replaceChildren(...steps.map(([kind, name, n, more]) => {
      const text = count(n) + " reads" + more + " · " + percent(n, all);
      const track = bar(kind, all === 0 ? 0 : n / all);
      track.setAttribute("role", "img");
      track.setAttribute("aria-label", name + ": " + text);
      return rowOf(name, text, track);
    }));
    const hour = ["hot", "cold", "miss"].map((kind) => ({kind, values: minutes[kind]}));
    const total = sum(hour.map((one) => sum(one.values)));
    $("reads-hour").replaceChildren(columns(hour, 60, "Reads a minute in the last hour, " + total + " in all"),
      make("div", {class: "legend quiet"}, make("span", {class: "hot"}, warm ? "volumes" : "hot"), make("span", {class: "cold"}, far ? "buckets" : "bucket"), make("span", {class: "miss"}, "missed")));
  }

  // ---- flow ----

  function showFlow(flow) {
    $("flow").replaceChildren(...flow.map((edge) => {
      const hour = sum(edge.bytes_by_minute);
      const text = count(edge.blocks) + " blocks, " + bytes(edge.bytes) + (edge.failed > 0 ? " · " + count(edge.failed) + " stayed" : "");
      const name = PLACES[edge.from] + " → " + PLACES[edge.to] + " (" + edge.verb + ")";
      if (hour === 0) return rowOf(name, text);
      return rowOf(name, text,
        columns([{kind: edge.to, values: edge.bytes_by_minute}], 30, edge.verb + ": " + bytes(hour) + " in the last hour"));
    }));
  }

  // ---- ages ----

  function showReuse(reuse) {
    const edges = reuse.up_to_seconds;
    const total = sum(reuse.reads);
    const top = Math.max(1, ...reuse.reads);
    const width = 420 / reuse.reads.length;
    const svg = draw("svg", {viewBox: "0 0 420 170", role: "img", "aria-label": "Reads by age: "
      + reuse.reads.map((n, i) => (i < edges.length ? "up to " + span(edges[i]) : "more") + " " + n).join(", ")});
    reuse.reads.forEach((n, i) => {
      const size = n === 0 ? 0 : Math.max(2, 112 * n / top);
      svg.append(draw("rect", {class: "age", x: i * width + 2, y: 134 - size, width: width - 4, height: size, rx: 1.5}));
      if (n > 0) svg.append(draw("text", {class: "value", x: (i + 0.5) * width, y: 130 - size, "text-anchor": "middle"}, percent(n, total).replace(" ", "")));
      svg.append(draw("text", {x: (i + 0.5) * width, y: i % 2 ? 163 : 150, "text-anchor": "middle"}, i < edges.length ? "≤" + span(edges[i]) : "more"));
    });
    svg.append(draw("line", {class: "axis", x1: 0, x2: 420, y1: 134.5, y2: 134.5}));
    reuse.lines.forEach((line, nth) => {
      // Within its bucket as its age lies between the bounds, on a scale of ratios.
      const at = edges.findIndex((edge) => line.seconds <= edge);
      const bucket = at < 0 ? edges.length : at;
      const low = bucket === 0 ? 0.1 : edges[bucket - 1];
      const high = bucket < edges.length ? edges[bucket] : low * 4;
      const share = Math.min(1, Math.log(Math.max(line.seconds, low) / low) / Math.log(high / low));
      const x = (bucket + share) * width;
      const left = x > 210;
      svg.append(draw("line", {class: "policy", x1: x, x2: x, y1: 4, y2: 134}));
      svg.append(draw("text", {class: "value", x: x + (left ? -4 : 4), y: 12 + 13 * (nth % 5), "text-anchor": left ? "end" : "start"}, /\d/.test(line.text.split(":").pop()) ? line.text : line.text + ", " + span(line.seconds)));
    });
    $("reuse").replaceChildren(svg, ...(total === 0 ? [make("p", {class: "quiet"}, "Nothing was read again yet.")] : []));
  }

  // ---- the tree ----

  // Rows of hot blocks become trees by their parents; a parent that is not hot makes its child a root.
  function treeOf(prefixes) {
    const nodes = new Map();
    for (const one of prefixes)
      nodes.set(one.namespace + "\n" + one.hash, {...one, key: one.namespace + "\n" + one.hash, children: [], up: null});
    const roots = [];
    for (const node of nodes.values()) {
      const up = node.position > 0 ? nodes.get(node.namespace + "\n" + node.parent) : undefined;
      if (up && up !== node && up.position < node.position) { up.children.push(node); node.up = up; } else roots.push(node);
    }
    const weigh = (node) => {
      node.children.forEach(weigh);
      node.children.sort((a, b) => b.weight - a.weight);
      node.weight = Math.max(node.reads, sum(node.children.map((child) => child.weight)));
    };
    roots.forEach(weigh);
    roots.sort((a, b) => b.weight - a.weight);
    return roots;
  }
  function showTree(prefixes) {
    const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.key : undefined;
    const roots = treeOf(prefixes);
    const whole = sum(roots.map((root) => root.weight));
    const boxes = [];
    const room = $("tree").clientWidth;
    let deepest = 0;
    const place = (node, left, depth, index, among) => {
      const share = node.weight / whole;
      if (share < 0.004 || depth >= DEPTH_MAX) return;
      const button = make("button", {type: "button", role: "treeitem", tabindex: "-1", "aria-level": depth + 1, class: "shade" + Math.min(depth >> 1, 4),
        "aria-posinset": index + 1, "aria-setsize": among.length, "aria-selected": node.key === chosen ? "true" : "false",
        title: node.hash + "\n" + node.namespace + "\nblock " + node.position + ", " + node.reads + " reads of late, " + bytes(node.bytes),
        "aria-label": "Block " + node.position + ", " + node.hash + ", " + node.reads + " reads"});
      button.dataset.key = node.key;
      button.style.left = 100 * left / whole + "%";
      button.style.width = 100 * share + "%";
      button.style.top = depth * ROW_PX + "px";
      if (share * room > 44) button.textContent = share * room > 150 ? node.hash.slice(0, 8) + "… " + node.reads : node.hash.slice(0, 4);
      button.addEventListener("click", () => explain(node));
      button.node = node;
      boxes.push(button);
      deepest = Math.max(deepest, depth + 1);
      let at = left;
      node.children.forEach((child, i) => { place(child, at, depth + 1, i, node.children); at += child.weight; });
    };
    let at = 0;
    roots.forEach((root, i) => { place(root, at, 0, i, roots); at += root.weight; });
    $("tree").style.height = Math.max(1, deepest) * ROW_PX + "px";
    $("tree").replaceChildren(...(boxes.length > 0 ? boxes : [make("p", {class: "quiet"}, "Nothing was read yet.")]));
    const first = boxes.find((box) => box.dataset.key === focused) || boxes.find((box) => box.dataset.key === chosen) || boxes[0];
    if (first) first.tabIndex = 0;
    if (first && first.dataset.key === focused) first.focus();
  }
  function walkTree(event) {
    const here = event.target;
    if (!here.node) return;
    const boxes = [...$("tree").children];
    const boxOf = (node) => node && boxes.find((box) => box.node === node);
    const peers = boxes.filter((box) => box.node.up === here.node.up);
    const next = {ArrowLeft: () => peers[peers.indexOf(here) - 1], ArrowRight: () => peers[peers.indexOf(here) + 1],
      ArrowUp: () => boxOf(here.node.up), ArrowDown: () => boxOf(here.node.children[0]), Home: () => boxes[0], End: () => boxes[boxes.length - 1]}[event.key];
    if (!next) return;
    event.preventDefault();
    const to = next();
    if (!to) return;
    here.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  }

  // ---- one block ----

  function fact(name, value) {
    return make("div", {}, make("dt", {}, name), make("dd", {}, value));
  }
  async function explain(node) {
    chosen = node.key;
    for (const box of $("tree").children)
      if (box.node) box.setAttribute("aria-selected", box.node.key === chosen ? "true" : "false");
    $("explain-title").textContent = "Block " + node.hash;
    $("explain-body").replaceChildren(make("p", {class: "quiet"}, "Asking …"));
    $("pin").hidden = true;
    $("pin-said").replaceChildren();
    $("explain").hidden = false;
    const answer = await fetch("/v1/blocks/" + node.hash + "?namespace=" + encodeURIComponent(node.namespace)).catch(() => null);
    if (chosen !== node.key) return; // another was chosen meanwhile
    if (!answer || !answer.ok) {
      $("explain-body").replaceChildren(make("p", {}, answer && answer.status === 404 ? "Nobody holds this block any more." : "The advisor did not answer."));
      return;
    }
    const block = await answer.json();
    const age = block.last_access_ms > 0 ? span((Date.now() - block.last_access_ms) / 1000) + " ago" : "never";
    const facts = make("dl", {}, fact("namespace", block.namespace || "(none)"), fact("position", String(block.position)), fact("size", bytes(block.size)),
      fact("reads", count(block.hits) + ", " + count(block.cold_hits) + " from the bucket"), fact("last read", age),
      fact("children", count(block.child_count)), fact("held by", block.places.map((place) => place.holder + " (" + place.tier + ")").join(", ") || "nobody"));
    shown = block;
    $("pin").hidden = false;
    $("explain-body").replaceChildren(facts, ...await rulesOf(node), make("p", {}, " "), command("kvtier block show " + node.hash + (node.namespace ? " --namespace " + quote(node.namespace) : "")));
  }
  // What each rule makes of it in each tier, and why.
  async function rulesOf(node) {
    const answer = await fetch("/v1/explain/" + node.hash + "?namespace=" + encodeURIComponent(node.namespace)).catch(() => null);
    if (!answer || !answer.ok) return [];
    const told = await answer.json();
    return told.tiers.map((tier) => make("div", {},
      make("h3", {}, "In " + tier.holder + ": " + (tier.rule ? tier.rule + (tier.waits ? ", which waits for its watermark" : "") : "no rule")),
      make("ul", {class: "rules"}, ...tier.rules.map((rule) => make("li", {},
        make("b", {}, rule.id), " (" + rule.do + ") " + (rule.wins ? "has it" : rule.matches ? "would have it, another comes first" : "does not"),
        ...rule.clauses.map((clause) => make("div", {class: clause.is ? "yes" : "no"},
          (clause.is ? "✓ " : "✗ ") + clause.clause + (clause.change ? " (it would be with " + clause.change + ")" : ""))))))));
  }

  // A job of one block at each gateway that has it in its first volume, or else in its second; or where none has, at all.
  async function pin(event) {
    event.preventDefault();
    const verb = event.submitter ? event.submitter.value : "pin";
    const node = chosen;
    const hours = Number($("pin-hours").value);
    const block = {hash: shown.hash, parent: shown.parent, position: shown.position, ranks: shown.ranks, size: shown.size};
    const having = (begin) => shown.places.map((place) => place.holder).filter((holder) => holder.startsWith(begin)).map((holder) => holder.slice(begin.length));
    const at = [having("hot@"), having("warm@"), gateways].find((names) => names.length > 0) || [];
    const moves = [...new Set(at)].map((gateway) => ({verb, gateway, namespace: shown.namespace, blocks: [block],
      ...(verb === "pin" && hours > 0 ? {until_ms: Date.now() + Math.round(hours * 3600000)} : {})}));
    if (moves.length === 0) { $("pin-said").textContent = "There is no gateway to ask."; return; }
    $("pin-said").textContent = "Asking …";
    const answer = await fetch("/v1/jobs", {method: "POST", headers: {"Authorization": "Bearer " + $("pin-token").value, "Content-Type": "application/json"},
      body: JSON.stringify({kind: verb, title: verb + " " + shown.hash, moves})}).catch(() => null);
    if (chosen !== node) return;
    const told = answer ? await answer.json().catch(() => ({})) : {};
    if (answer && answer.ok) $("pin-said").replaceChildren("Job " + told.job.id + " has it. ", command("kvtier migrate status " + told.job.id));
    else $("pin-said").textContent = told.error ? told.error.message : "The advisor did not answer.";
  }
  const quote = (text) => /^[\w./@:-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'";
  function closeExplain() {
    chosen = null;
    $("explain").hidden = true;
    for (const box of $("tree").children) if (box.node) box.setAttribute("aria-selected", "false");
  }

  // ---- the plan ----

  const PART = 32; // of a plan's batches in one request
  let plan = null;

  const ask = async (path, body, token) => {
    const headers = {"Content-Type": "application/json", ...(token ? {"Authorization": "Bearer " + token} : {})};
    const answer = await fetch(path, body === undefined ? {} : {method: "POST", headers, body: JSON.stringify(body)});
    const told = await answer.json();
    if (!answer.ok) throw new Error(told.error.message);
    return told;
  };
  // "hash parent position ranks size" weighs its size times the shards of its bitmap.
  function weight(block) {
    const [, , , ranks, size] = block.split(" ").map(Number);
    let shards = 0;
    for (let bits = ranks >>> 0; bits > 0; bits = (bits & bits - 1) >>> 0) shards++;
    return shards * size;
  }
  function diffOf(moves) {
    const lines = new Map();
    for (const move of moves) {
      const key = [move.verb, move.tier, move.to || "", move.rule].join("\n");
      const line = lines.get(key) || {...move, count: 0, size: 0};
      line.count += move.blocks.length;
      for (const block of move.blocks) line.size += weight(block);
      lines.set(key, line);
    }
    return [...lines.values()].sort((a, b) => b.size - a.size);
  }
  function showPlan() {
    const {summary, moves} = plan;
    const less = new Set(["demote", "delete"]);
    const deletes = moves.some((move) => move.verb === "delete");
    $("plan-said").replaceChildren();
    $("plan-approve").hidden = moves.length === 0 || deletes;
    if (moves.length === 0) {
      $("plan").replaceChildren(make("p", {}, "Nothing would be moved."), ...summary.warnings.map((text) => make("p", {}, text)));
      return;
    }
    $("plan").replaceChildren(
      make("p", {}, count(summary.blocks) + " blocks, " + bytes(summary.bytes) + ", " + count(summary.requests) + " requests"
        + (summary.eta_s === null ? "" : ", about " + span(summary.eta_s))),
      make("ul", {class: "diff"}, ...diffOf(moves).map((line) => make("li", {class: less.has(line.verb) ? "less" : "more"},
        (less.has(line.verb) ? "− " : "+ ") + line.tier + (line.to ? " → " + line.to : "") + ": " + count(line.count) + " blocks, " + bytes(line.size) + " (" + line.verb + ", " + line.rule + ")"))),
      ...summary.warnings.map((text) => make("p", {}, text)),
      // What deletes is read in full before it is approved.
      ...(deletes ? [make("p", {}, "It deletes blocks, so it is approved where its safety limits are checked:"),
        command("kvtier policy plan --out plan.json && kvtier policy apply plan.json")] : []));
  }
  async function makePlan(event) {
    event.preventDefault();
    $("plan-approve").hidden = true;
    $("plan").replaceChildren(make("p", {class: "quiet"}, "Asking …"));
    try {
      plan = await ask("/v1/plan", {}, $("plan-token").value);
      showPlan();
    } catch (error) {
      $("plan").replaceChildren(make("p", {}, error.message));
    }
  }
  // As `kvtier policy apply` does it: refused when stale, given in parts under its digest, begun with the last.
  async function give(token) {
    const {version} = await ask("/v1/policy");
    let [blocks, moved] = [0, 0];
    if (version !== plan.base_version) throw new Error("The plan is stale: the policy has changed. Make another.");
    for (let at = 0; at < plan.moves.length; at += PART) {
      const told = await ask("/v1/plan/check", {moves: plan.moves.slice(at, at + PART)});
      blocks += told.blocks;
      moved += told.moved;
    }
    if (moved * 20 > blocks) throw new Error("The plan is stale: " + moved + " of " + blocks + " blocks have moved. Make another.");
    const job = {kind: "plan", title: plan.digest.slice(0, 16), key: "plan:" + plan.digest, policy_version: version};
    const parts = Math.ceil(plan.moves.length / PART);
    let told = null;
    for (let part = 0; part <= parts; part++) // the one behind all is empty
      told = await ask("/v1/jobs", {...job, part, more: part < parts, moves: plan.moves.slice(part * PART, (part + 1) * PART)}, token);
    return told.job;
  }
  async function approve(event) {
    event.preventDefault();
    $("plan-said").textContent = "Asking …";
    try {
      const job = await give($("plan-token").value);
      $("plan-said").replaceChildren("Job " + job.id + " has it. ", command("kvtier migrate status " + job.id));
    } catch (error) {
      $("plan-said").textContent = error.message;
    }
  }

  // ---- the rest ----

  function showState(data) {
    const {index, events, orders} = data;
    $("state").replaceChildren(
      fact("policy", data.mode + (data.effective_mode === data.mode ? "" : " (in effect " + data.effective_mode + ")") + ", " + data.ordering), fact("blocks known", count(index.blocks) + " in " + count(index.places) + " places"),
      fact("index in memory", bytes(index.ram_bytes) + " of " + bytes(index.ram_max_bytes)), fact("on disk", bytes(index.db_bytes) + " of " + bytes(index.db_max_bytes)),
      fact("events applied", count(events.applied) + (events.lag_ms > 0 ? ", " + span(events.lag_ms / 1000) + " behind" : "")),
      fact("publishers", count(events.publishers) + (events.uncertain > 0 ? ", " + events.uncertain + " uncertain" : "") + (events.silent > 0 ? ", " + events.silent + " silent" : "")),
      fact("orders", (data.paused ? "paused, " : "") + count(orders.done) + " done, " + orders.pending + " pending, " + count(orders.failed + orders.expired) + " failed" + (orders.observed > 0 ? ", " + count(orders.observed) + " only observed" : "")),
      fact("gateways", data.gateways.map((one) => one.name + (one.healthy && one.reports ? "" : " (!)")).join(", ") || "none"));
  }
  function show(data) {
    heard = Date.now();
    gateways = data.gateways.map((one) => one.name);
    $("facts").textContent = "advisor " + data.version + " · up " + span(data.uptime_ms / 1000);
    part("verdict", data.verdict, () => showVerdict(data.verdict));
    part("troubles", data.troubles, () => showTroubles(data.troubles));
    part("tiers", data.tiers, () => showTiers(data.tiers));
    part("reads", [data.reads, data.reads_by_minute, hasRung(data.tiers, "warm"), hasRung(data.tiers, "far")],
      () => showReads(data.reads, data.reads_by_minute, data.tiers));
    part("flow", data.flow, () => showFlow(data.flow));
    part("reuse", data.reuse, () => showReuse(data.reuse));
    part("tree", data.prefixes, () => showTree(data.prefixes));
    part("state", [data.mode, data.effective_mode, data.paused, data.ordering, data.index, data.events, data.orders, data.gateways], () => showState(data));
    document.body.dataset.drawn = "yes";
  }
  function link(kind, text) {
    if ($("link").textContent === text) return;
    $("link").className = "badge " + kind;
    $("link").textContent = text;
  }
  function lost() {
    link("lost", "no connection");
    const since = heard === 0 ? "" : " What is shown is " + span((Date.now() - heard) / 1000) + " old.";
    delete drawn.verdict;
    showVerdict({ok: false, text: "The advisor does not answer." + since, command: "kvtier doctor"});
  }

  // ---- following: a stream, or questions where it is refused ----

  async function poll() {
    try {
      const answer = await fetch("/v1/overview", {cache: "no-store"});
      if (!answer.ok) throw new Error("status " + answer.status);
      show(await answer.json());
      link("live", "every " + POLL_MS / 1000 + " s");
    } catch {
      lost();
    }
    if (polling !== 0) polling = setTimeout(poll, POLL_MS);
  }
  function follow() {
    if (!window.EventSource) { polling = -1; poll(); return; }
    const source = new EventSource("/v1/stream");
    source.onopen = () => {
      clearTimeout(polling);
      polling = 0;
      link("live", "live");
    };
    source.onmessage = (event) => { link("live", "live"); show(JSON.parse(event.data)); };
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) { // refused: too many follow it
        if (polling === 0) { polling = -1; poll(); }
        setTimeout(follow, RETRY_MS);
      } else if (heard === 0 || Date.now() - heard > LOST_MS / 5) {
        lost();
      }
    };
  }

  // ---- light and dark ----

  const dark = matchMedia("(prefers-color-scheme: dark)");
  function theme() {
    return document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
  }
  function nameTheme() {
    $("theme").textContent = theme() === "dark" ? "Light" : "Dark";
    $("theme").setAttribute("aria-label", "Use the " + (theme() === "dark" ? "light" : "dark") + " colours");
  }
  $("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = theme() === "dark" ? "light" : "dark";
    try { localStorage.setItem("kvtier-theme", document.documentElement.dataset.theme); } catch { /* not kept then */ }
    nameTheme();
  });
  dark.addEventListener("change", nameTheme);
  try {
    const kept = localStorage.getItem("kvtier-theme");
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch { /* none is kept */ }
  nameTheme();

  $("tree").addEventListener("keydown", walkTree);
  $("plan-ask").addEventListener("submit", makePlan);
  $("plan-approve").addEventListener("submit", approve);
  $("pin").addEventListener("submit", pin);
  $("explain-close").addEventListener("click", closeExplain);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") closeExplain(); });
  follow();
})();
