// The TypeScript SDK side of `cargo xtask bench server`: one trivial tool, stateless, plain JSON answers.
// Set up as the SDK's own stateless example is: its Express app, a fresh server and transport for each request.
import { createMcpExpressApp } from "@modelcontextprotocol/sdk/server/express.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

const port = Number(process.argv[2]);
const outputSchema = { license_type: z.string(), features: z.array(z.string()), expires: z.string().nullable() };

function benchServer() {
  const server = new McpServer({ name: "bench-peer", version: "1.0.0" });
  server.registerTool(
    "license_info",
    { description: "Tells which licence this server runs under.", inputSchema: {}, outputSchema },
    async () => {
      const licence = { license_type: "Community", features: ["all"], expires: null };
      return { content: [{ type: "text", text: JSON.stringify(licence) }], structuredContent: licence };
    },
  );
  return server;
}

const app = createMcpExpressApp();

app.post("/mcp", async (request, response) => {
  const server = benchServer();
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
  response.on("close", () => {
    transport.close();
    server.close();
  });
  await server.connect(transport);
  await transport.handleRequest(request, response, request.body);
});

app.listen(port, "127.0.0.1");
