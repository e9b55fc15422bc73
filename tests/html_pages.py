"""What a reader of an HTML page gets."""

import html.parser


class Page(html.parser.HTMLParser):
  """A parsed page.

  Attributes:
    tags: (name, attributes) of each start tag, in order.
    texts: the text that a reader sees, piece by piece; scripts and styles too.
  """

  def __init__(self, page: str):
    super().__init__()
    self.tags: list[tuple[str, dict[str, str | None]]] = []
    self.texts: list[str] = []
    self.feed(page)

  def handle_starttag(self, tag, attrs):
    self.tags.append((tag, dict(attrs)))

  def handle_data(self, data):
    self.texts.append(data)

  def all(self, tag: str) -> list[dict[str, str | None]]:
    """The attributes of each tag of a name."""
    return [attributes for name, attributes in self.tags if name == tag]
