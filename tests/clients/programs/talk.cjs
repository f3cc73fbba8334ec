// What the JavaScript programs share; see talk.py for what is asked and answered.
const { readFileSync } = require("node:fs");
const { createInterface } = require("node:readline");

const where = JSON.parse(process.argv[2]);

const entry = () => JSON.parse(readFileSync(where.config, "utf8")).mcpServers[where.server];

async function answer(client, heard) {
  const does = {
    tools: async () => {
      const { tools } = await client.listTools();
      return Object.fromEntries(tools.map((tool) => [tool.name, tool.description ?? null]));
    },
    call: ({ name, arguments: given }) => client.callTool({ name, arguments: given }),
    heard,
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    const said = await Promise.resolve(asked)
      .then(does[asked.do])
      .then((answer) => ({ answer }))
      .catch((error) => ({ error: String(error) }));
    process.stdout.write(JSON.stringify(said) + "\n");
  }
  await client.close();
}

// Connects as the caller was told to, by the SDK's own transports, and answers.
async function talk(client, Http, Stdio, heard) {
  await client.connect(where.url ? new Http(new URL(where.url)) : new Stdio(entry()));
  await answer(client, heard);
}

module.exports = { talk };
