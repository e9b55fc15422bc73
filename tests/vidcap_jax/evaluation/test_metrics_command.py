"""The command that scores a captions file."""

import json
import os
import re

import pytest

from tests.vidcap_jax.evaluation.test_metrics import CAPTIONS, REFERENCES
from vidcap_jax.evaluation import metrics_command
from vidcap_jax.evaluation.metrics import score


class TestCommand:
  def files(self, folder, captions=CAPTIONS):
    (folder / 'h.json').write_text(json.dumps(captions))
    (folder / 'r.json').write_text(json.dumps(REFERENCES))
    return [f'--hypotheses={folder}/h.json', f'--references={folder}/r.json']

  def test_prints_a_table_and_writes_both_files(self, tmp_path, capsys):
    arguments = self.files(tmp_path) + ['--metrics=BLEU,CIDEr']
    metrics_command.main([*arguments, f'--json={tmp_path}/all', f'--per_video={tmp_path}/each'])
    corpus, per_video = score(CAPTIONS, REFERENCES, ['BLEU', 'CIDEr'])
    out = capsys.readouterr().out
    assert f'CIDEr   {corpus["CIDEr"]:7.4f}' in out
    assert '3 videos, 3 distinct captions' in out
    written = json.loads((tmp_path / 'all').read_text())
    signature = written.pop('signature')
    assert f'signature: {signature}\n' in out
    assert written.pop('intervals').keys() == corpus.keys()
    assert written == {**corpus, 'videos': 3}
    assert re.search(r'CIDEr +\d.\d{4}  \(\d.\d{4} to \d.\d{4}\)', out)
    assert json.loads((tmp_path / 'each').read_text()) == per_video

  def test_bad_input_is_one_line_and_a_failure(self, tmp_path):
    with pytest.raises(
      SystemExit, match=r'^error: 1 hypotheses do not match 3 .*\(v2, v3\); are the references'
    ):
      metrics_command.main(self.files(tmp_path, {'v1': 'a dog'}))

  def test_references_that_vocabularies_split_otherwise_are_counted(self, tmp_path, capsys):
    (tmp_path / 'h.json').write_text('{"v1": "a dog", "v2": "he sings"}')
    (tmp_path / 'r.json').write_text('{"v1": ["a dog & a cat", "a dog"], "v2": ["he cannot"]}')
    files = [f'--hypotheses={tmp_path}/h.json', f'--references={tmp_path}/r.json']
    metrics_command.main([*files, '--metrics=CIDEr', f'--json={tmp_path}/s.json'])
    assert '2 of 3' in capsys.readouterr().err
    assert json.loads((tmp_path / 's.json').read_text())['different_references'] == 2

  @pytest.mark.parametrize('name', ['txt', 'tsv'])
  def test_a_header_is_no_video(self, name, tmp_path, capsys):
    """Scored as a video with a perfect caption, it would give 3 videos and CIDEr 2.0886."""
    captions = 'v1\ta man sings\nv2\ta dog runs\n'
    references = 'v1\ta man sings a song\nv1\ta man is singing\nv2\tthe cat sleeps\n'
    for file, lines in (('h', captions), ('r', references)):
      (tmp_path / f'{file}.{name}').write_text('video_id\tcaption\n' + lines)
    files = [f'--hypotheses={tmp_path}/h.{name}', f'--references={tmp_path}/r.{name}']
    metrics_command.main([*files, '--metrics=CIDEr'])
    out = capsys.readouterr().out
    assert '1.8830' in out
    assert '2 videos' in out

  def test_a_split_belongs_to_the_video(self, tmp_path, capsys):
    """Without the second caption of v2, whose split is only in another row, BLEU_1 is 0.5."""
    (tmp_path / 'h.json').write_text('{"v2": "a dog is running"}')
    rows = 'v1,a man one,train\nv2,a dog runs,val\nv2,a dog is running,\nv3,a cow,train\n'
    (tmp_path / 'r.csv').write_text('video_id,caption,split\n' + rows)
    files = [f'--hypotheses={tmp_path}/h.json', f'--references={tmp_path}/r.csv']
    metrics_command.main([*files, '--split=val', '--metrics=BLEU'])
    assert re.search(r'BLEU_1 +1\.0000', capsys.readouterr().out)

  def test_a_lone_quote_is_one_line_and_a_failure(self, tmp_path):
    (tmp_path / 'h.json').write_text('{"v1": "a", "v2": "b"}')
    rows = 'v1,"a person plays guitar on stage\nv2,a cat\nv2,"a dog" is running\n'
    (tmp_path / 'r.csv').write_text('video_id,caption\n' + rows)
    with pytest.raises(SystemExit, match=r'^error: .*r\.csv: line 2: .*quote'):
      metrics_command.main([f'--hypotheses={tmp_path}/h.json', f'--references={tmp_path}/r.csv'])

  def test_the_form_of_references_may_be_named(self, tmp_path, capsys):
    (tmp_path / 'h.json').write_text('{"v1": "a dog"}')
    (tmp_path / 'r.json').write_text('[{"videoID": "v1", "enCap": ["a dog"], "chCap": ["狗"]}]')
    files = [f'--hypotheses={tmp_path}/h.json', f'--references={tmp_path}/r.json']
    metrics_command.main([*files, '--format=vatex', '--language=en', '--metrics=BLEU'])
    assert re.search(r'BLEU_1 +1\.0000', capsys.readouterr().out)

  @pytest.mark.parametrize(
    ('names', 'words'),
    [
      ('BLUE,CIDEr', 'BLUE.*similar: BLEU'),
      ('CIDEr-D,bertscore', 'CIDEr-D.*bertscore.*similar: CIDEr, BERTScore'),
      ('', 'no metrics'),
    ],
  )
  def test_unknown_metrics_are_named_before_files_are_read(self, names, words):
    files = ['--hypotheses=/nowhere.json', '--references=/nowhere.json']
    with pytest.raises(SystemExit, match=words):
      metrics_command.main([*files, f'--metrics={names}'])

  def test_another_signature_is_refused(self, tmp_path, capsys):
    files = self.files(tmp_path)
    with pytest.raises(SystemExit, match='error: .*videos: 4 .* 3 here; scorers: mine'):
      metrics_command.main([*files, '--signature=videos:4|df:references|scorers:mine'])
    metrics_command.main([*files, '--signature=videos:3|df:references', '--metrics=BLEU'])
    out = capsys.readouterr().out
    assert 'BLEU_4' in out
    assert 'document frequencies' not in out  # of CIDEr

  def test_two_systems_are_compared(self, tmp_path, capsys):
    _, references = self.files(tmp_path)
    other = {**CAPTIONS, 'v1': 'a horse'}
    (tmp_path / 'i.json').write_text(json.dumps(other))
    compared = f'--compare={tmp_path}/h.json,{tmp_path}/i.json'
    arguments = [compared, references, '--metrics=CIDEr', f'--json={tmp_path}/c.json']
    metrics_command.main(arguments)
    out = capsys.readouterr().out
    written = json.loads((tmp_path / 'c.json').read_text())
    assert list(written['metrics']) == ['CIDEr']
    each = [score(captions, REFERENCES, ['CIDEr'])[0]['CIDEr'] for captions in (CAPTIONS, other)]
    cider = written['metrics']['CIDEr']
    assert [cider['first'], cider['second']] == pytest.approx(each)
    assert f'{each[0]:.4f}' in out
    assert 'document frequencies' in out
    assert f'signature: {written["signature"]}\n' in out
    with pytest.raises(SystemExit, match='--per_video'):
      metrics_command.main([*arguments, f'--per_video={tmp_path}/each'])

  @pytest.mark.parametrize('flags', [[], ['--hypotheses=a', '--compare=a,b'], ['--compare=a']])
  def test_captions_are_those_of_one_or_two_systems(self, flags, capsys):
    with pytest.raises(SystemExit):
      metrics_command.main([*flags, '--references=r.json'])
    assert '--compare' in capsys.readouterr().err

  def test_captions_of_another_split_are_named(self, tmp_path):
    (tmp_path / 'h.json').write_text('{"v1": "a dog", "v2": "a cat"}')
    rows = 'video_id,caption,split\nv1,a dog,train\nv2,a cat,val\n'
    (tmp_path / 'r.csv').write_text(rows)
    files = [f'--hypotheses={tmp_path}/h.json', f'--references={tmp_path}/r.csv']
    with pytest.raises(SystemExit, match=r'--split=train: 1 of 2 .*r\.csv \(v2: val\)'):
      metrics_command.main([*files, '--split=train', '--metrics=BLEU'])

  @pytest.mark.parametrize('flag', ['--json', '--per_video'])
  def test_output_paths_are_checked_first(self, flag, tmp_path):
    missing = [f'--{name}=/nowhere.json' for name in ('hypotheses', 'references')]
    file = f'{tmp_path}/no/x.json'
    with pytest.raises(SystemExit, match=f'error: {flag}={file}: cannot write to {tmp_path}/no '):
      metrics_command.main([*missing, f'{flag}={file}'])

  @pytest.mark.parametrize(
    ('flags', 'words'),
    [
      (['--json=h.json'], '--json=h.json.*--hypotheses'),
      (['--per_video=sub/../h.json'], '--per_video.*--hypotheses'),
      (['--json=r.json'], '--json.*--references'),
      (['--json=s.json', '--splits=s.json'], '--json.*--splits'),
      (['--json=x', '--per_video=x'], '--per_video=x.*--json'),
    ],
  )
  def test_outputs_replace_no_input_and_no_other_output(self, flags, words, tmp_path, monkeypatch):
    self.files(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'sub').mkdir()
    (tmp_path / 's.json').write_text('["v1", "v2", "v3"]')
    before = {file.name: file.read_bytes() for file in tmp_path.glob('*.json')}
    with pytest.raises(SystemExit, match=words):
      metrics_command.main(['--hypotheses=h.json', '--references=r.json', *flags])
    assert {file.name: file.read_bytes() for file in tmp_path.glob('*.json')} == before

  def test_both_outputs_may_be_one_pipe(self, tmp_path):
    os.mkfifo(tmp_path / 'pipe')
    reader = os.open(tmp_path / 'pipe', os.O_RDONLY | os.O_NONBLOCK)
    pipe = tmp_path / 'pipe'
    flags = ['--metrics=BLEU', f'--json={pipe}', f'--per_video={pipe}']
    metrics_command.main([*self.files(tmp_path), *flags])
    assert b'"signature"' in os.read(reader, 10_000)
    os.close(reader)

  def test_the_second_compared_file_is_not_replaced_either(self, tmp_path):
    files = f'--compare={tmp_path}/a.json,{tmp_path}/b.json'
    with pytest.raises(SystemExit, match='--json.*--compare'):
      metrics_command.main([files, '--references=r.json', f'--json={tmp_path}/b.json'])

  def test_a_missing_file_is_named(self, tmp_path):
    with pytest.raises(SystemExit, match=r'error: .*nowhere\.json'):
      metrics_command.main(
        [f'--hypotheses={tmp_path}/nowhere.json', f'--references={tmp_path}/x.json']
      )
