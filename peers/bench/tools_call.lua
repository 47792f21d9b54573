-- Load for `cargo xtask bench server`: one `tools/call` after the other on connections that stay open.
-- BENCH_TOOL names the tool, BENCH_KEY is the key or empty. Prints one line of JSON; times are in microseconds.

wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Accept"] = "application/json, text/event-stream"
wrk.headers["MCP-Protocol-Version"] = "2025-11-25"

local key = os.getenv("BENCH_KEY")
if key and key ~= "" then
  wrk.headers["Authorization"] = "Bearer " .. key
end

wrk.body = string.format(
  '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","arguments":{}}}',
  os.getenv("BENCH_TOOL")
)

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"microseconds":%d,"p50":%d,"p99":%d,"refused":%d,"broken":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout
  ))
end
