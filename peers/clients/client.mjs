// Drives hindcast with the official TypeScript SDK; prints one JSON line for each scenario.
//
//   node client.mjs '{"transport": "stdio", "binary": "…/hindcast", "data": "…"}'
//   node client.mjs '{"transport": "https", "url": "https://localhost:7443/mcp", "keys": {"main": "kdb_…", …}}'
//
// Imports are looked up from this file, or from the working folder when the text is given by --eval. The server's
// certificate is trusted through NODE_EXTRA_CA_CERTS. The trail in the data folder must be long: some scenarios
// follow or stop the check of it. The scenarios are those of client.py.
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  LoggingMessageNotificationSchema,
  McpError,
  ResourceUpdatedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { AjvJsonSchemaValidator } from "@modelcontextprotocol/sdk/validation/ajv";

const target = JSON.parse(process.argv.at(-1));
const https = target.transport === "https";

const TEMPLATES = [
  "resource://knowledge/{collectionId}/documents",
  "resource://knowledge/{collectionId}/document/{docId}",
  "resource://knowledge/{collectionId}/stats",
  "hindcast://errors/{code}",
];

const TOOLS = [
  "cache_stats",
  "debugger/attach",
  "debugger/autopsy",
  "debugger/compare",
  "debugger/continue",
  "debugger/disassemble",
  "debugger/disconnect",
  "debugger/evaluate",
  "debugger/export_trace",
  "debugger/find",
  "debugger/find_similar_bugs",
  "debugger/get_comprehensive_audit",
  "debugger/get_modules",
  "debugger/get_registers",
  "debugger/get_stack_trace",
  "debugger/get_threads",
  "debugger/get_variables",
  "debugger/goto",
  "debugger/history",
  "debugger/last_write",
  "debugger/launch",
  "debugger/license_info",
  "debugger/pause",
  "debugger/quota_status",
  "debugger/read_memory",
  "debugger/read_output",
  "debugger/record",
  "debugger/remove_breakpoint",
  "debugger/restart",
  "debugger/reverse_continue",
  "debugger/run_to",
  "debugger/save_finding",
  "debugger/set_breakpoint",
  "debugger/set_exception_breakpoint",
  "debugger/set_watchpoint",
  "debugger/status",
  "debugger/step_backward",
  "debugger/step_forward",
  "debugger/timeline",
  "debugger/trace_calls",
  "debugger/update_breakpoint",
  "debugger/wait",
  "debugger/what_if",
  "debugger/when",
  "debugger/write_input",
  "knowledge/add",
  "knowledge/ask",
  "knowledge/remove",
  "knowledge/search",
  "knowledge/status",
  "preload_documents",
  "validate_schema",
  "workspace/list",
  "workspace/put",
  "workspace/remove",
  "xpath_query",
];
const AUDIT = "debugger/get_comprehensive_audit";

// Notifications are bundled for 150 ms: whatever has not come after this long will not come.
const QUIET = 800;
// How soon a change must be told.
const SOON = 2000;
// A scenario that takes longer hangs.
const LONGEST = 60_000;

// What the SDK complains of: a peer should give it no cause.
const complaints = [];
const warn = console.warn;
console.warn = (...parts) => {
  complaints.push(parts.join(" "));
  warn(...parts);
};

/** Gives `use` a client and what it hears, and closes the client after it. */
async function connected(use, { key = "main", flags = [], send } = {}) {
  const heard = { logs: [], updates: [] };
  const client = new Client({ name: "hindcast-peer", version: "1.0.0" });
  client.onerror = (error) => {
    // The SDK forgets a call at its answer before it looks at progress that came in the same piece, and at once when
    // the call is cancelled.
    if (!/progress notification for an unknown token/.test(error)) complaints.push(String(error));
  };
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void heard.logs.push(params));
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void heard.updates.push(params.uri));
  const transport = transportTo(key, flags, send);
  await client.connect(transport);
  try {
    return await use(client, heard, transport);
  } finally {
    if (https) await transport.terminateSession();
    client.onerror = undefined;
    await client.close();
  }
}

function transportTo(key, flags, send = fetch) {
  if (https) {
    const headers = { Authorization: `Bearer ${target.keys[key]}` };
    return new StreamableHTTPClientTransport(new URL(target.url), { requestInit: { headers }, fetch: send });
  }
  const transport = new StdioClientTransport({
    command: target.binary,
    args: ["mcp", "--data-dir", target.data, ...flags],
    // The configuration of whoever runs this must not matter.
    env: { XDG_CONFIG_HOME: "/nonexistent" },
  });
  // The client tells every transport that wants to know which revision was agreed on.
  transport.setProtocolVersion = (version) => void (transport.protocolVersion = version);
  return transport;
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function until(condition, what) {
  const end = Date.now() + SOON;
  while (!condition()) {
    assert.ok(Date.now() < end, `not within ${SOON} ms: ${what}`);
    await pause(5);
  }
}

async function errorOf(promise) {
  return promise.then(
    (result) => assert.fail(`no error but ${JSON.stringify(result)}`),
    (error) => error,
  );
}

function assertError(error, code, message) {
  assert.ok(error instanceof McpError, String(error));
  // The SDK puts the code before the message.
  assert.deepEqual([error.code, error.message], [code, `MCP error ${code}: ${message}`]);
  assert.ok(error.data.details && error.data.hint, JSON.stringify(error.data));
}

/** The checks of the trail that were written down after row `seq`, oldest first. */
async function checksSince(client, seq) {
  const result = await client.callTool({ name: AUDIT, arguments: { limit: 20 } });
  return result.structuredContent.rows.filter((row) => row.tool === AUDIT && row.seq > seq).reverse();
}

async function cancelledCheck(client) {
  const cut = new AbortController();
  const onprogress = () => cut.abort("changed my mind");
  const call = client.callTool({ name: AUDIT, arguments: { limit: 1 } }, undefined, { signal: cut.signal, onprogress });
  return call.then(
    () => false,
    (error) => {
      assert.match(String(error), /changed my mind/);
      return true;
    },
  );
}

const shortest = (checks) => Math.min(...checks.map((check) => check.duration_us));

const licenseInfo = (client) => client.callTool({ name: "debugger/license_info", arguments: {} });

/**
 * After an error the SDK takes the answer's event stream for broken off, and comes back for the rest of it. It must
 * not end up with one more open stream for every error it was ever told of.
 */
async function errorsLeaveNoStreams() {
  const opened = [];
  const send = async (url, init) => {
    const response = await fetch(url, init);
    if (init.method === "GET" && response.ok) opened.push(new Headers(init.headers).get("last-event-id"));
    return response;
  };
  return connected(
    async (client) => {
      for (let i = 0; i < 3; i++) await errorOf(client.callTool({ name: "debugger/get_stack_trace", arguments: {} }));
      // It comes back after 3 s, and once more 3 s later when it then finds nothing.
      await pause(7500);
      assert.deepEqual(opened, [null]);
    },
    { send },
  );
}
// Takes long and needs nobody: beside the others.
const streamsAfterErrors = https ? errorsLeaveNoStreams() : undefined;
streamsAfterErrors?.catch(() => {});

const scenarios = {
  initialize: () =>
    connected(async (client, _heard, transport) => {
      assert.equal(client.getServerVersion().name, "hindcast");
      assert.match(client.getInstructions(), /data\.hint/);
      const capabilities = client.getServerCapabilities();
      assert.deepEqual(capabilities.resources, { subscribe: true, listChanged: true });
      for (const name of ["tools", "prompts", "completions", "logging"]) assert.ok(capabilities[name], name);
      await client.ping();
      assert.equal(transport.protocolVersion, "2025-11-25");
      return { negotiated: transport.protocolVersion };
    }),

  list_tools: () =>
    connected(async (client) => {
      const { tools } = await client.listTools();
      assert.deepEqual(tools.map((tool) => tool.name).sort(), TOOLS);
      const validator = new AjvJsonSchemaValidator();
      for (const tool of tools) {
        assert.ok(tool.description && tool.annotations, tool.name);
        validator.getValidator(tool.inputSchema);
      }
      const attach = tools.find((tool) => tool.name === "debugger/attach");
      assert.equal(attach.inputSchema.properties.pid.type, "integer");
      assert.equal(tools.find((tool) => tool.name === AUDIT).annotations.readOnlyHint, true);
      return tools.map((tool) => tool.name);
    }),

  list_tools_with_underscores: https
    ? undefined
    : () =>
        connected(
          async (client) => {
            const names = (await client.listTools()).tools.map((tool) => tool.name).sort();
            assert.deepEqual(names, TOOLS.map((name) => name.replace("/", "_")));
            for (const name of ["debugger_license_info", "debugger/license_info"]) {
              assert.ok(!(await client.callTool({ name })).isError);
            }
            return names;
          },
          { flags: ["--tool-names", "underscore"] },
        ),

  call_tool: () =>
    connected(async (client) => {
      const result = await licenseInfo(client);
      assert.ok(!result.isError);
      assert.match(result.content[0].text, /^License: Community\n/);
      assert.ok(result.structuredContent.features.includes("debugging"));
      return result.structuredContent;
    }),

  call_tool_by_underscore_name: () =>
    connected(async (client) => {
      const plain = await licenseInfo(client);
      const underscored = await client.callTool({ name: "debugger_license_info", arguments: {} });
      assert.deepEqual(underscored.structuredContent, plain.structuredContent);
      return underscored.content[0].text;
    }),

  tool_error: () =>
    connected(async (client) => {
      const error = await errorOf(client.callTool({ name: "debugger/get_stack_trace", arguments: {} }));
      assertError(error, -32005, "Not attached");
      assert.match(error.data.hint, /debugger\/attach/);
      const wrong = await errorOf(client.callTool({ name: "debugger/attach", arguments: { pid: "four" } }));
      assertError(wrong, -32602, "Invalid params");
      return error.data;
    }),

  read_resources: () =>
    connected(async (client) => {
      const listed = (await client.listResources()).resources.map((resource) => resource.uri);
      for (const name of ["quota", "audit", "license", "errors"]) assert.ok(listed.includes(`hindcast://${name}`), name);
      const { resourceTemplates } = await client.listResourceTemplates();
      assert.deepEqual(resourceTemplates.map((template) => template.uriTemplate), TEMPLATES);
      const [quota] = (await client.readResource({ uri: "hindcast://quota" })).contents;
      assert.deepEqual([quota.uri, quota.mimeType], ["hindcast://quota", "application/json"]);
      const { unlimited, month } = JSON.parse(quota.text);
      assert.equal(unlimited, !https);
      if (https) {
        assert.equal(month.used + month.remaining, month.limit);
        // Other reads count, so an answer out of a cache would be an old one.
        await client.readResource({ uri: "hindcast://errors" });
        const [again] = (await client.readResource({ uri: "hindcast://quota" })).contents;
        assert.equal(JSON.parse(again.text).month.used, month.used + 1);
      }
      const [error] = (await client.readResource({ uri: "hindcast://errors/-32005" })).contents;
      assert.equal(JSON.parse(error.text).message, "Not attached");
      return listed;
    }),

  unknown_resource: () =>
    connected(async (client) => {
      const error = await errorOf(client.readResource({ uri: "hindcast://nothing" }));
      assertError(error, -32602, "Resource not found");
      assert.equal(error.data.uri, "hindcast://nothing");
      return error.data;
    }),

  prompts: () =>
    connected(async (client) => {
      const { prompts } = await client.listPrompts();
      const names = prompts.map((prompt) => prompt.name).sort();
      assert.deepEqual(names, ["find-crash", "find-hang", "find-wrong-value", "review-audit"]);
      const review = prompts.find((prompt) => prompt.name === "review-audit");
      const required = Object.fromEntries(review.arguments.map((argument) => [argument.name, argument.required]));
      assert.deepEqual(required, { period: true, concern: false });
      const { messages } = await client.getPrompt({ name: "review-audit", arguments: { period: "yesterday" } });
      assert.equal(messages.length, 1);
      assert.equal(messages[0].role, "user");
      assert.match(messages[0].content.text, /during yesterday/);
      assertError(await errorOf(client.getPrompt({ name: "review-audit" })), -32602, "Invalid params");
      return required;
    }),

  complete: () =>
    connected(async (client) => {
      const prompt = { type: "ref/prompt", name: "review-audit" };
      const periods = await client.complete({ ref: prompt, argument: { name: "period", value: "the" } });
      assert.deepEqual(periods.completion.values, ["the last hour", "the last 7 days"]);
      const template = { type: "ref/resource", uri: "hindcast://errors/{code}" };
      const codes = await client.complete({ ref: template, argument: { name: "code", value: "-3200" } });
      const { values } = codes.completion;
      assert.ok(values.includes("-32005") && values.every((code) => code.startsWith("-3200")), String(values));
      return values;
    }),

  logging: () =>
    connected(async (client, heard) => {
      await licenseInfo(client);
      await client.setLoggingLevel("info");
      await client.callTool({ name: "debugger/quota_status", arguments: {} });
      await until(() => heard.logs.length, "a log message");
      const expected = { tool: "debugger/quota_status", outcome: "ok" };
      assert.deepEqual(heard.logs, [{ level: "info", logger: "hindcast", data: expected }]);
      await errorOf(client.callTool({ name: "debugger/get_stack_trace", arguments: {} }));
      await until(() => heard.logs.length === 2, "a warning");
      assert.equal(heard.logs[1].level, "warning");
      assert.equal(heard.logs[1].data.outcome.code, -32005);
      return expected;
    }),

  subscribe: () =>
    connected(async (client, heard) => {
      const uri = "hindcast://audit";
      await client.subscribeResource({ uri });
      const asked = Date.now();
      await licenseInfo(client);
      await until(() => heard.updates.length, "an update of the audit trail");
      const took = Date.now() - asked;
      await pause(QUIET);
      assert.deepEqual([...new Set(heard.updates)], [uri]);
      await client.unsubscribeResource({ uri });
      const before = heard.updates.length;
      await licenseInfo(client);
      await pause(QUIET);
      assert.equal(heard.updates.length, before);
      const error = await errorOf(client.subscribeResource({ uri: "hindcast://nothing" }));
      assertError(error, -32602, "Resource not found");
      return { milliseconds: took };
    }),

  progress: () =>
    connected(async (client) => {
      const seen = [];
      const result = await client.callTool({ name: AUDIT, arguments: { limit: 1 } }, undefined, {
        onprogress: (progress) => seen.push(progress),
      });
      const { chain } = result.structuredContent;
      assert.equal(chain.verified, true);
      assert.ok(seen.length >= 3, `${seen.length} notifications`);
      seen.slice(1).forEach((progress, index) => assert.ok(progress.progress > seen[index].progress));
      // Not always all of it: see `connected`.
      assert.ok(seen.at(-1).progress <= (chain.rows ?? 100));
      assert.ok(seen.every(({ progress, total, message }) => total >= progress && message), JSON.stringify(seen));
      return { notifications: seen.length, progress: seen.at(-1).progress };
    }),

  cancel: () =>
    connected(async (client) => {
      let whole;
      for (let i = 0; i < 3; i++) whole = await checksSince(client, 0);
      // The server has to stop its work, not only the client its waiting: then the call is written down with less
      // time than a whole check takes. On a busy machine the word may come too late.
      let durations;
      for (let i = 0; i < 5; i++) {
        const wasCut = await cancelledCheck(client);
        assert.ok(!(await licenseInfo(client)).isError);
        const cancelled = await checksSince(client, whole.at(-1).seq);
        durations = { whole_us: shortest(whole), cancelled_us: shortest(cancelled) };
        if (wasCut && durations.cancelled_us < durations.whole_us / 2) return durations;
      }
      assert.fail(JSON.stringify(durations));
    }),

  wrong_key: !https
    ? undefined
    : async () => {
        const client = new Client({ name: "hindcast-peer", version: "1.0.0" });
        const error = await errorOf(client.connect(transportTo("wrong", [])));
        assert.equal(error.code, 401, String(error));
        // The SDK quotes the body.
        assert.match(error.message, /"code":-32001/);
        assert.match(error.message, /"hint":/);
        return error.message;
      },

  wrong_scope: !https
    ? undefined
    : () =>
        connected(
          async (client) => {
            const error = await errorOf(client.callTool({ name: AUDIT, arguments: {} }));
            assertError(error, -32003, "Permission denied");
            assert.equal(error.data.required_scope, "audit:read");
            const listed = (await client.listResources()).resources.map((resource) => resource.uri);
            assert.ok(!listed.includes("hindcast://audit"), String(listed));
            const unread = await errorOf(client.readResource({ uri: "hindcast://audit" }));
            assertError(unread, -32003, "Permission denied");
            return error.data;
          },
          { key: "narrow" },
        ),

  over_quota: !https
    ? undefined
    : () =>
        connected(
          async (client) => {
            await licenseInfo(client);
            const reported = complaints.length;
            const error = await errorOf(licenseInfo(client));
            // The SDK reports the status and quotes the body.
            assert.equal(error.code, 429, String(error));
            const body = JSON.parse(error.message.slice(error.message.indexOf("{")));
            assert.equal(body.error.code, -32002);
            assert.equal(body.error.data.used, body.error.data.limit);
            complaints.splice(reported);
            assert.ok((await client.listTools()).tools.length, "listing is free");
            return body.error;
          },
          { key: "one_call" },
        ),

  own_notifications_only: !https
    ? undefined
    : () =>
        connected((mine, heardByMe) =>
          connected(
            async (theirs, heardByThem) => {
              for (const client of [mine, theirs]) await client.subscribeResource({ uri: "hindcast://quota" });
              await licenseInfo(mine);
              await until(() => heardByMe.updates.length, "an update of my quota");
              await pause(QUIET);
              assert.deepEqual(heardByThem.updates, []);
              const before = heardByMe.updates.length;
              await licenseInfo(theirs);
              await until(() => heardByThem.updates.length, "an update of their quota");
              await pause(QUIET);
              assert.equal(heardByMe.updates.length, before);
              return { mine: heardByMe.updates, theirs: heardByThem.updates };
            },
            { key: "other" },
          ),
        ),

  errors_leave_no_streams: https ? () => streamsAfterErrors : undefined,

  no_complaints: async () => assert.deepEqual(complaints, []),
};

for (const [scenario, run] of Object.entries(scenarios)) {
  if (!run) continue;
  let outcome;
  try {
    const hangs = new Promise((_, reject) => setTimeout(reject, LONGEST, new Error("hangs")).unref());
    outcome = { ok: true, detail: (await Promise.race([run(), hangs])) ?? null };
  } catch (error) {
    outcome = { ok: false, detail: String(error?.stack ?? error) };
  }
  console.log(JSON.stringify({ scenario, ...outcome }));
}
// A scenario that failed half-way may have left a connection open.
process.exit();
