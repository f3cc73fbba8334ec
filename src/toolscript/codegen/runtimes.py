"""The end of every generated module: the code that calls the gateway and raises its errors."""

TYPESCRIPT = """
/** A block of a tool's answer, as in MCP. */
export type Content =
  | { type: "text"; text: string }
  | { type: "image" | "audio"; data: string; mimeType: string }
  | { type: "resource_link"; uri: string; name: string; mimeType?: string }
  | { type: "resource"; resource: Resource };

export interface Resource {
  uri: string;
  mimeType?: string;
  text?: string;
  blob?: string;
}

/** The text of an answer, its blocks one after the other. */
export function text(answer: { content: Content[] }): string {
  return answer.content.map((block) => (block.type === "text" ? block.text : "")).join("");
}

/** A call that failed. */
export class ToolError extends Error {
  /** The tool's id. */
  tool: string;
  /** "ToolError" if the tool itself says that it failed, else the gateway's type of error. */
  type: string;
  /** What the tool answered. */
  content: Content[];

  constructor(why: string, tool: string, type: string, content: Content[] = []) {
    super(`Tool call failed: ${why}`);
    this.name = "ToolError";
    this.tool = tool;
    this.type = type;
    this.content = content;
  }
}

/** A variable of the environment, unless there is a global of its name. */
function variable(name: string): string | undefined {
  // deno-lint-ignore no-explicit-any
  const here = globalThis as any;
  try {
    return here[name] || here.Deno?.env.get(name) || here.process?.env[name];
  } catch {
    return undefined; // Deno was not allowed to read it
  }
}

function gatewayUrl(): string | undefined {
  return variable("TOOLSCRIPT_GATEWAY_URL")?.replace(/\\/+$/, "");
}

function authorization(): { [header: string]: string } {
  const token = variable("TOOLSCRIPT_GATEWAY_TOKEN");
  const most = variable("TOOLSCRIPT_CLASS");
  return {
    ...(token && { Authorization: `Bearer ${token}` }),
    ...(most && { "Toolscript-Class": most }),
  };
}

/** Why the gateway did not pass an answer on. */
async function failure(tool: string, response: Response): Promise<ToolError> {
  const said = await response.json().catch(() => ({}));
  const type = said.type ?? `HTTP ${response.status}`;
  return new ToolError(said.error ?? response.statusText, tool, type);
}

/** What the tool answered, or the structured part of it, which an output schema promises. */
// deno-lint-ignore no-explicit-any
async function answer(tool: string, response: Response, structured = false): Promise<any> {
  const said = await response.json();
  if (said.isError) {
    const why = text(said) || "the tool does not say why";
    throw new ToolError(why, tool, "ToolError", said.content);
  }
  if (!structured) return said;
  if (said.structuredContent !== undefined) return said.structuredContent;
  const why = "the answer lacks what the tool's output schema promises";
  throw new ToolError(why, tool, "OutputError", said.content);
}
"""
PYTHON = '''
class TextContent(TypedDict):
    """A block of text."""

    type: Literal["text"]
    text: str


class MediaContent(TypedDict):
    """An image or a sound, in base64."""

    type: Literal["image", "audio"]
    data: str
    mimeType: str


class LinkContent(TypedDict):
    """Where a resource is."""

    type: Literal["resource_link"]
    uri: str
    name: str
    mimeType: NotRequired[str]


class Resource(TypedDict):
    """A resource, as text or in base64."""

    uri: str
    mimeType: NotRequired[str]
    text: NotRequired[str]
    blob: NotRequired[str]


class ResourceContent(TypedDict):
    """A block that holds a resource."""

    type: Literal["resource"]
    resource: Resource


Content: TypeAlias = "TextContent | MediaContent | LinkContent | ResourceContent"


class Answer(TypedDict):
    """What a tool without an output schema answers, block by block, as in MCP."""

    content: list[Content]
    structuredContent: NotRequired[Any]


class ToolError(Exception):
    """A call that failed.

    ``type`` is "ToolError" if the tool itself says that it failed, with what it
    answered in ``content``; else it is the gateway's type of error.
    """

    def __init__(self, message: str, tool: str, type: str, content: list[Content]) -> None:
        super().__init__(message)
        self.tool = tool
        self.type = type
        self.content = content


def text(answer: Answer) -> str:
    """The text of an answer, its blocks one after the other."""
    return "".join(block["text"] for block in answer["content"] if block["type"] == "text")


async def _answer(tool: str, params: object, *, structured: bool = False) -> Any:
    """What the tool answers, or the structured part of it, which an output schema promises."""
    status, reason, body = await asyncio.to_thread(_post, tool, params)
    try:
        said: Any = json.loads(body)
    except ValueError:
        said = {}
    if status >= 400:
        _fail(said.get("error") or reason, tool, said.get("type") or f"HTTP {status}")
    if said.get("isError"):
        _fail(text(said) or "the tool does not say why", tool, "ToolError", said["content"])
    if not structured:
        return said
    if "structuredContent" not in said:
        why = "the answer lacks what the tool's output schema promises"
        _fail(why, tool, "OutputError", said["content"])
    return said["structuredContent"]


def _fail(why: str, tool: str, type: str, content: list[Content] | None = None) -> Never:
    raise ToolError(f"Tool call failed: {why}", tool, type, content or [])


def _post(tool: str, params: object) -> tuple[int, str, bytes]:
    url = os.environ.get("TOOLSCRIPT_GATEWAY_URL")
    if not url:
        raise RuntimeError("TOOLSCRIPT_GATEWAY_URL not set")
    headers = {"Content-Type": "application/json"}
    if token := os.environ.get("TOOLSCRIPT_GATEWAY_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    if most := os.environ.get("TOOLSCRIPT_CLASS"):
        headers["Toolscript-Class"] = most
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port)
    path = f"{parts.path.rstrip('/')}/tools/{quote(tool, safe='')}"
    try:
        connection.request("POST", path, json.dumps(params).encode(), headers)
        response = connection.getresponse()
        return response.status, response.reason, response.read()
    except OSError as error:
        why = f"no gateway answers at {parts.hostname}:{parts.port}: {error}"
        _fail(why, tool, "GatewayMissingError")
    finally:
        connection.close()
'''
