// Save and share: a link, a program, a command, or a page that replays the training.

import { $, complain, page, painted } from "./app.js";
import { post, visitor } from "./api.js";

async function copy(text, words) {
  try { await navigator.clipboard.writeText(text); } catch { window.prompt("Copy this:", text); }
  page.copied = text;
  $("taken").textContent = words;
}

const trying = (action) => async () => { try { await action(); } catch (problem) { complain(problem); } };

export function wireTaking() {
  $("copy-link").onclick = () => {
    const link = new URL(location.href);
    link.searchParams.delete("token");
    copy(link.href, 'Link copied, without your token. Open it anywhere with: recombine lab --address "LINK"');
  };
  $("copy-python").onclick = trying(async () => copy((await post("code", painted())).python, "Python copied."));
  $("copy-command").onclick = trying(async () => copy((await post("code", painted())).command, "Command copied."));
  $("export").onclick = trying(async () => {
    const blob = await post("export", { visitor, state: painted() });
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: "recombine-lab.html" });
    link.click();
    URL.revokeObjectURL(link.href);
    page.exported = await blob.text();
    $("taken").textContent = "Saved as recombine-lab.html.";
  });
}
