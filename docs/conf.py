"""The documentation site: ``python -m docs`` builds it; docs/site.md is about it.

Pages are the Markdown files of the repository, so that their relative links work in the repository
and on the site. Sphinx with Furo and MyST is what Python's own packaging guides are built with;
Material for MkDocs gets no updates since November 2026.
"""

import importlib.metadata
import pathlib
import re
import shutil

from sphinx.application import Sphinx

ROOT = pathlib.Path(__file__).resolve().parents[1]

project = 'vidcap_jax'
author = 'The vidcap_jax authors'
copyright = author
release = importlib.metadata.version(project)

extensions = [
  'myst_parser',
  'sphinx.ext.autodoc',
  'sphinx.ext.napoleon',
  'sphinx.ext.viewcode',
  'sphinx_copybutton',
]
root_doc = 'README'
include_patterns = ['*.md', 'docs/**.md']
exclude_patterns = ['docs/**.py']
source_suffix = {'.md': 'markdown'}
# Links that Sphinx tries by itself, from a type or field to any object of the same name.
suppress_warnings = ['ref.python']
nitpicky = False
highlight_language = 'text'

myst_heading_anchors = 4
myst_enable_extensions = ['attrs_inline']

autodoc_member_order = 'bysource'
autodoc_typehints = 'signature'
autodoc_preserve_defaults = True
autodoc_default_options = {'exclude-members': 'replace'}  # of every Flax dataclass
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # fields of dataclasses are described once
napoleon_attr_annotations = False
toc_object_entries_show_parents = 'hide'

# Otherwise pages of sources link to the names that vidcap_jax gives their objects, on other pages.
viewcode_follow_imported_members = False

# Of ``python -m docs --links``. GitHub makes the anchors of a page when a browser shows it.
linkcheck_anchors_ignore_for_url = [r'https://github\.com/.*']
linkcheck_ignore = [r'https?://localhost.*', r'https?://127\.0\.0\.1.*']
linkcheck_timeout = 20
linkcheck_workers = 16

html_theme = 'furo'
html_title = 'vidcap_jax'
html_show_sphinx = False
html_show_copyright = False
html_static_path = ['_static']
html_css_files = ['site.css']

# Title -> page, by task, in the order of the navigation. A page that is not here fails the build.
NAVIGATION = {
  'Start': {
    'Install': 'docs/install',
    'Quickstart': 'docs/quickstart',
    'From PyTorch': 'docs/from-pytorch',
  },
  'Your data': {
    'Build a data set': 'docs/data',
    'Features of videos and pictures': 'docs/video',
    'Networks and their weights': 'docs/backbones',
    'On many machines (Beam, Dask)': 'docs/beam',
  },
  'Train': {'Training': 'docs/training', 'Choose a model': 'docs/models'},
  'Evaluate': {
    'Scores': 'docs/evaluation',
    'Reports': 'docs/report',
    'Figures and analyses': 'docs/studies',
  },
  'Caption and deploy': {
    'Caption new videos': 'docs/prediction',
    'From Python': 'docs/python',
    'Serve over HTTP': 'docs/serving',
    'Export': 'docs/export',
  },
  'Clusters and accelerators': {
    'Processes, hosts, devices': 'docs/distributed',
    'Start runs on clusters': 'docs/clusters',
    'Accelerators': 'docs/accelerators',
    'Compiled programs': 'docs/compiled',
  },
  'Papers and results': {
    "The papers' tables": 'docs/papers',
    'Results': 'docs/results/README',
    'Quickstart results': 'docs/results/quickstart',
    'MSR-VTT results': 'docs/results/msrvtt1000',
    'Flickr8k results': 'docs/results/flickr8k',
    'MSR-VTT frames results': 'docs/results/msrvtt_frames',
    'Probes': 'docs/probes',
    'Speed': 'docs/speed',
    'Reliability': 'docs/reliability',
  },
  'Extend': {
    'Models, formats, objectives': 'docs/extending',
    'Architecture': 'docs/architecture',
    'Contributing': 'CONTRIBUTING',
    'This site': 'docs/site',
    'Changes': 'CHANGELOG',
  },
  'API reference': {
    'vidcap_jax': 'docs/api/python',
    'Models': 'docs/api/models',
    'Objectives and rewards': 'docs/api/objectives',
    'Decoding': 'docs/api/decoding',
    'Data sets': 'docs/api/data',
    'Features': 'docs/api/features',
    'Inference': 'docs/api/inference',
    'Evaluation': 'docs/api/evaluation',
    'Training': 'docs/api/training',
  },
}


def edit_front_page(app: Sphinx, name: str, source: list[str]) -> None:
  """Appends the navigation, which the repository's view would show as text.

  The badge of the tests is removed: its address is relative to the page on GitHub.
  """
  if name == root_doc:
    source[0] = re.sub(r'^\[!\[.*\]\(\.\./\.\./actions/.*\n', '', source[0], flags=re.MULTILINE)
    for caption, pages in NAVIGATION.items():
      entries = [f'{title} <{page}>' for title, page in pages.items()]
      lines = ['```{toctree}', ':hidden:', f':caption: {caption}', '', *entries, '```']
      source[0] += '\n\n' + '\n'.join(lines)


def copy_front_page(app: Sphinx, error: Exception | None) -> None:
  """Copies the front page to index.html, which web servers show for the folder."""
  if error is None and app.builder.format == 'html':
    shutil.copy(app.outdir / f'{root_doc}.html', app.outdir / 'index.html')


def read_docstring(
  app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
  """Prepares a docstring for Napoleon.

  The indented blocks of a module's docstring are code: commands, formulas, lists of names. Several
  arguments or fields with one description (``mean, std: …``) are one name, without a space. What
  stands before a colon in the first line of a property is no type.
  """
  if what == 'module':
    for i in range(len(lines) - 2, 0, -1):
      text, blank, block = lines[i - 1 : i + 2]
      if text and not blank and block.startswith(' ') and not text.startswith((' ', '- ')):
        lines[i:i] = ['', '::']
  else:
    joined = lambda found: found[0].replace(', ', ',')  # noqa: E731
    lines[:] = [re.sub(r'^ +\w+(, \w+)+: ', joined, line) for line in lines]
    if what in ('property', 'attribute'):
      lines[:0] = ['..', '']  # an empty comment: Napoleon looks for a type in the first line


def shorten_types(
  app: Sphinx,
  what: str,
  name: str,
  obj: object,
  options: object,
  signature: str | None,
  result: str | None,
) -> tuple[str | None, str | None]:
  """Types of a signature that Sphinx can't parse, because it has a default factory."""
  return signature and re.sub(r'~[\w.]+\.', '', signature), result


def setup(app: Sphinx) -> None:
  app.connect('autodoc-process-docstring', read_docstring, priority=400)  # before Napoleon
  app.connect('autodoc-process-signature', shorten_types)
  app.connect('source-read', edit_front_page)
  app.connect('build-finished', copy_front_page)
