"""The site: pages of Markdown, the reference from docstrings, one gallery whose pages are executed."""

import os

import portable_ffn

# The adapter of Keras is imported for its docstring.
os.environ.setdefault("KERAS_BACKEND", "numpy")

project = "portable_ffn"
author = "the portable_ffn maintainers"
project_copyright = "the portable_ffn maintainers"
release = version = portable_ffn.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.plot_directive",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_templates", "gallery/*.rst", "sg_execution_times.rst"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
nitpicky = False

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = ["svg"]
plot_rcparams = {"font.size": 10, "svg.fonttype": "path", "figure.facecolor": "white"}
plot_apply_rcparams = True

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "gallery_built",
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1e9,
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "portable_ffn"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": [], "carry_on": [], "gallery_built/index": []}

# Mathematics is drawn where the page is read; nothing else on the site asks another host.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
# A build asks no other host either: links inside the site and the repository are checked, those to papers are not.
linkcheck_ignore = [r"https?://.*"]
