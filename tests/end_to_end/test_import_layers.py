"""Each package imports only from packages below its own, imports inside functions included."""

from benchmarks.import_graph import FLOOR, find_imports, find_modules, package_of

# The public API builds data sets, and renders clips for a config without one.
ALLOWED = {
  ('vidcap_jax.api.training', 'data_prep.synthetic.clips'),
  ('vidcap_jax.api.data_sets', 'data_prep.build'),
  ('vidcap_jax.api.data_sets', 'data_prep.dataset.builder'),
  ('vidcap_jax.api.data_sets', 'data_prep.report.summary'),
}


def test_packages_import_only_from_below():
  modules = find_modules()
  wrong = []
  for module, path in modules.items():
    if module == 'vidcap_jax':
      continue
    for imported in find_imports(path, modules):
      if imported == 'vidcap_jax' or (module, imported) in ALLOWED:
        continue
      importing, package = package_of(module), package_of(imported)
      if importing != package and FLOOR[importing] >= FLOOR[package]:
        wrong.append(f'{module} imports {imported}')
  assert not wrong, '\n'.join(wrong)


def test_vidcap_jax_imports_neither_data_prep_nor_configs():
  modules = find_modules()
  wrong = [
    f'{module} imports {imported}'
    for module, path in modules.items()
    if module.startswith('vidcap_jax.')
    for imported in find_imports(path, modules)
    if imported.partition('.')[0] in ('data_prep', 'configs') and (module, imported) not in ALLOWED
  ]
  assert not wrong, '\n'.join(wrong)
