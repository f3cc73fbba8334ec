// The TypeScript SDK's 1.x client.
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const {
  StreamableHTTPClientTransport,
} = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { ToolListChangedNotificationSchema } = require("@modelcontextprotocol/sdk/types.js");
const { answer, entry, where } = require("./talk.cjs");

async function main() {
  let heard = 0;
  const client = new Client({ name: "typescript_1", version: "1" });
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => void heard++);
  const server = where.url
    ? new StreamableHTTPClientTransport(new URL(where.url))
    : new StdioClientTransport(entry());
  await client.connect(server);
  await answer(client, async () => heard);
}

main();
