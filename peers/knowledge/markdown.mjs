// Turns pages of documentation into Markdown, so that every knowledge base reads the same text.
//
// usage: markdown.mjs < pages, one JSON object with `from` and `to` a line

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { JSDOM } from "jsdom";
import TurndownService from "turndown";

const turndown = new TurndownService({ headingStyle: "atx", codeBlockStyle: "fenced", bulletListMarker: "-" });
// Names such as `check_same_thread` stay as a person writes them.
turndown.escape = (text) => text;
turndown.addRule("code without <code>", {
  filter: (node) => node.nodeName === "PRE",
  replacement: (_, node) => `\n\n\`\`\`\n${node.textContent.trimEnd()}\n\`\`\`\n\n`,
});
turndown.addRule("links keep their text", { filter: "a", replacement: (content) => content });

for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const { from, to } = JSON.parse(line);
  const { document } = new JSDOM(readFileSync(from)).window;
  // What stands around the text in Sphinx, mdBook and DocBook.
  const around = ".headerlink, nav, script, style, .navheader, .navfooter, .sphinxsidebar, button";
  document.querySelectorAll(around).forEach((element) => element.remove());
  const main = document.querySelector("main, [role=main]") ?? document.body;
  mkdirSync(dirname(to), { recursive: true });
  writeFileSync(to, turndown.turndown(main.innerHTML));
}
