// Drives a real Chromium over the page of a server; prints one JSON line for each scenario.
//
//   node browse.mjs '{"url": "http://localhost:7443", "key": "kdb_…", "session": "…", "expression": "account->currency", "shots": null}'
//
// Imports are looked up from the working folder when the text is given by --eval.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import puppeteer from "puppeteer-core";

const target = JSON.parse(process.argv.at(-1));
const axe = await readFile(createRequire(`${process.cwd()}/`).resolve("axe-core/axe.min.js"), "utf8");

const SIZES = { desktop: [1440, 900], tablet: [820, 1180], phone: [390, 844] };

const browser = await puppeteer.launch({
  executablePath: "/usr/bin/chromium",
  headless: true,
  acceptInsecureCerts: true,
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
});
const complaints = [];

const open = async (size = "desktop", options = {}) => {
  const page = await browser.newPage();
  const [width, height] = SIZES[size];
  await page.setViewport({ width, height, deviceScaleFactor: 1 });
  if (options.dark) await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
  if (options.plain) await page.setJavaScriptEnabled(false);
  page.on("console", (message) => {
    if (["error", "warn"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("dialog", (dialog) => complaints.push(`dialog: ${dialog.message()}`) && dialog.dismiss());
  return page;
};

const scenario = async (name, work) => {
  try {
    const detail = await work();
    console.log(JSON.stringify({ scenario: name, ok: true, detail: detail ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ scenario: name, ok: false, detail: String(error.stack ?? error) }));
  }
};

// Injected through the debugger's own context, which the page's policy does not bind.
const audit = async (page) => {
  await page.evaluate(axe);
  const found = await page.evaluate(() =>
    axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }),
  );
  return found.violations
    .filter((one) => ["serious", "critical"].includes(one.impact))
    .map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`).join(" | ")}`);
};

const settled = (page, act) => Promise.all([page.waitForNavigation({ waitUntil: "load" }), act()]);

// An element that stands in the new content, not in the old one.
const replaced = async (page, act) => {
  await page.evaluate(() => document.querySelector("#content").firstElementChild?.setAttribute("data-old", ""));
  await act();
  await page.waitForFunction(() => !document.querySelector("[data-old]"), { timeout: 25000 });
};

// A click on what may be put in place anew while it is looked for: the page follows the session.
const press = async (page, selector) => {
  for (let turn = 0; ; turn++) {
    try {
      return await page.click(selector);
    } catch (error) {
      if (turn > 4) throw error;
    }
  }
};
const becomes = (page, test, ...given) => page.waitForFunction(test, { timeout: 25000 }, ...given);

const here = `${target.url}/sessions/${target.session}`;
const page = await open();

await scenario("sign_in", async () => {
  await page.goto(`${target.url}/`);
  assert.match(page.url(), /\/sign-in$/);
  assert.deepEqual(await audit(page), []);
  await page.type("#key", target.key);
  await settled(page, () => page.click("button[type=submit]"));
  assert.match(page.url(), /\/sessions$/);
  const cookies = await browser.cookies();
  const cookie = cookies.find((one) => one.name.includes("hindcast-"));
  assert.ok(cookie.httpOnly && cookie.sameSite === "Strict", JSON.stringify(cookie));
});

await scenario("open_the_crash", async () => {
  await settled(page, () => page.click(`a[href$="/sessions/${target.session}"]`));
  const text = await page.$eval("main", (main) => main.innerText);
  assert.match(text, /SIGSEGV/);
  assert.match(text, /print_statement/);
  assert.match(await page.$eval("tr.current", (row) => row.innerText), /account->currency\[0\]/);
});

await scenario("click_the_guilty_write", async () => {
  await page.type("#watch", target.expression);
  await replaced(page, () => page.click("form.watch button"));
  const marks = await page.$$eval("a.mark.k-write", (all) => all.map((one) => one.getAttribute("aria-label")));
  assert.ok(marks.some((mark) => mark.includes("settle")), JSON.stringify(marks));
  await press(page, 'a.mark.k-write[aria-label*="settle"]');
  await becomes(page, () => document.querySelector("dd.before") && document.querySelector(".pill.past"));
  const before = await page.$eval("dd.before", (one) => one.innerText);
  const after = await page.$eval("dd.after", (one) => one.innerText);
  assert.match(before, /EUR/);
  assert.match(after, /0x|[0-9]{6}/);
  assert.match(await page.$eval("tr.current", (row) => row.innerText), /balances\[day\] = balance|day\+\+/);
  assert.match(await page.$eval(".pill", (pill) => pill.innerText), /past/);
  return { before, after };
});

await scenario("keys_step_in_both_directions", async () => {
  const moment = () => page.$eval(".why .moment", (one) => one.innerText);
  const start = await moment();
  await page.focus("main");
  await page.keyboard.press("n");
  const isOther = (before) => (document.querySelector(".why .moment")?.innerText ?? before) !== before;
  await becomes(page, isOther, start);
  const later = await moment();
  await page.focus("main");
  await page.keyboard.press("N");
  await becomes(page, isOther, later);
});

await scenario("a_breakpoint_is_set_and_removed_by_its_line", async () => {
  const count = () => page.$$eval(".breakpoints li", (all) => all.length);
  const before = await count();
  const are = (wanted) => document.querySelectorAll(".breakpoints li").length === wanted;
  await press(page, "tr.current .gutter button");
  await becomes(page, are, before + 1);
  await press(page, ".breakpoints button");
  await becomes(page, are, before);
});

await scenario("what_others_do_is_followed", async () => {
  const second = await open();
  await second.goto(here);
  await press(second, 'button[value="present"]');
  // A page that nobody sees looks only when it is seen again.
  await page.bringToFront();
  await becomes(page, () => document.querySelector(".why")?.innerText.includes("SIGSEGV"));
  await second.close();
});

await scenario("it_works_without_scripts", async () => {
  const plain = await open("desktop", { plain: true });
  await plain.goto(`${here}?watch=${encodeURIComponent(target.expression)}`);
  const guilty = await plain.$('a.mark.k-write[aria-label*="settle"]');
  await settled(plain, () => guilty.click());
  assert.match(await plain.$eval("dd.before", (one) => one.innerText), /EUR/);
  await settled(plain, () => plain.click('#chosen button[name="moment"]'));
  assert.match(await plain.$eval(".pill", (pill) => pill.innerText), /past/);
  await settled(plain, () => plain.click('button[value="present"]'));
  await plain.close();
});

const PLACES = {
  session: `${here}?watch=${encodeURIComponent(target.expression)}`,
  sessions: `${target.url}/sessions`,
  knowledge: `${target.url}/knowledge`,
  search: `${target.url}/knowledge/search?q=${encodeURIComponent(target.query ?? "overrun")}`,
  operations: `${target.url}/operations`,
  audit: `${target.url}/operations/audit`,
};

await scenario("nothing_keeps_anybody_out", async () => {
  const found = [];
  for (const [name, url] of Object.entries(PLACES)) {
    for (const dark of [false, true]) {
      const one = await open("desktop", { dark });
      await one.goto(url);
      for (const violation of await audit(one)) found.push(`${name}${dark ? " (dark)" : ""}: ${violation}`);
      await one.close();
    }
  }
  assert.deepEqual(found, []);
});

await scenario("it_fits_a_phone", async () => {
  for (const [name, url] of Object.entries(PLACES)) {
    const phone = await open("phone");
    await phone.goto(url);
    const wide = await phone.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 390, `${name} is ${wide} wide`);
    await phone.close();
  }
});

if (target.shots) {
  await scenario("screenshots", async () => {
    for (const size of Object.keys(SIZES)) {
      const one = await open(size, { dark: size === "tablet" });
      await one.goto(PLACES.session);
      const guilty = await one.$('a.mark.k-write[aria-label*="settle"]');
      if (guilty) await replaced(one, () => guilty.click());
      await one.mouse.move(0, 0);
      await one.evaluate(() => scrollTo(0, 0));
      await one.screenshot({ path: `${target.shots}/session-${size}.webp`, type: "webp", quality: 80, fullPage: size === "phone" ? false : false });
      await one.close();
    }
    for (const name of ["sessions", "knowledge", "search", "operations", "audit"]) {
      const one = await open("desktop");
      await one.goto(PLACES[name]);
      await one.screenshot({ path: `${target.shots}/${name}.webp`, type: "webp", quality: 80 });
      await one.close();
    }
  });
}

await scenario("nothing_is_complained_about", async () => {
  assert.deepEqual(complaints, []);
});

await browser.close();
