// The TypeScript SDK's 2.x client, which speaks the newest protocol where it can.
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");
const { answer, entry, where } = require("./talk.cjs");

async function main() {
  let heard = 0;
  const client = new Client(
    { name: "typescript_2", version: "1" },
    {
      versionNegotiation: { mode: "auto" },
      listChanged: { tools: { autoRefresh: false, onChanged: () => void heard++ } },
    },
  );
  const server = where.url
    ? new StreamableHTTPClientTransport(new URL(where.url))
    : new StdioClientTransport(entry());
  await client.connect(server);
  await answer(client, async () => heard);
}

main();
