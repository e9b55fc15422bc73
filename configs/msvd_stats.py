"""STaTS on MSVD: spatio-temporal and temporo-spatial ranked attention (Tables 1 and 3).

  vidcap build --format=msvd --annotations=DIR --id_map=youtube_mapping.txt \\
      --min_count=1 --max_words=0 --leak_words_of=val,test \\
      --features=i3d=i3d_rgb/,flow=i3d_flow/,frcnn=frcnn/ --output=data/msvd
  vidcap train --config=configs/msvd_stats.py:variant=stats,features=i3d \\
      --config.data.dir=data/msvd --workdir=runs/msvd_stats

Data: i3d (I3D RGB) and flow (I3D optical flow), grids 7x7x2048 from Mixed_5c, one for every 16
frames; frcnn (Faster R-CNN), regions of 10 boxes x 2048 every 16 frames. A variant reads
only the streams that it names. Splits 1200/100/670.

Vocabulary: 12,596 words with the 4 special tokens. The paper prints 13,010 distinct words for the
whole of MSVD, but not its own vocabulary, threshold or limit of length. The command comes nearest:
it keeps all words of all splits, uncut; S2VT's text of the captions has no more. The words of the
test leak into it. For results of your own leave --leak_words_of out: 9,466.

Variants, with the paper's CIDEr / BLEU-4 / ROUGE-L / METEOR:

  variant=st                      Table 1  0.742 / 0.502 / 0.68  / 0.325
  variant=ts                      Table 1  0.521 / 0.391 / 0.646 / 0.289
  variant=stats (the default)     Table 1  0.802 / 0.526 / 0.695 / 0.335
  variant=st,features=frcnn       Table 1  0.686 / 0.477 / 0.69  / 0.33
  variant=ts,features=frcnn       Table 1  0.439 / 0.376 / 0.633 / 0.274
  variant=stats,features=frcnn    Table 1  0.709 / 0.492 / 0.68  / 0.319
  features=frcnn+flow             Table 3  0.747 / 0.495 / 0.694 / 0.334
  features=i3d+flow               Table 3  0.835 / 0.548 / 0.711 / 0.350

``pooling=`` mean+ranked, ranked, mean, lstm, mean+lstm, temporal or mean+temporal chooses how ST
pools frames, as in Table 2 (configs/msrvtt_stats.py has the paper's scores). ``runlocal`` trains a
small model on rendered clips with random-weight streams.

Stages: ``xe``, 10 epochs of cross entropy, and ``rl``, 10 more with METEOR and BLEU-4 as rewards
and cross entropy (self-critical training, which the paper calls REINFORCE; METEOR needs Java).
Scheduled sampling goes on by epoch over both (``train.first_epoch``). TS's temperature falls in
``xe`` from 1 to 0.01, and stays there in ``rl``, for samples and baseline alike (the paper has
"a low temperature"). ``recipe=xe`` is 20 epochs of cross entropy instead. The paper does not give
dropout, the weights of the rank loss, rewards and cross entropy, TS's temperatures, the largest
number of frames or the beam; those here were chosen for this config. As published, features are not
standardised and gradients not clipped.

Not run on MSVD's features: expected score and time are unknown.
"""

from configs import common, stats_rows
from vidcap_jax.data.schema import Stream

VARIANTS = stats_rows.variants('i3d', 'frcnn', 'i3d+flow', 'frcnn+flow')
# A minute, the longest clip's length, at 30 frames a second.
STREAMS = (
  Stream('i3d', 'grid', (None, 7, 7, 2048), longest=112),
  Stream('flow', 'grid', (None, 7, 7, 2048), longest=112),
  Stream('frcnn', 'regions', (None, None, 2048), longest=112, most_regions=10),
)
VOCABULARY = 12_596


def get_config(variant: str = ''):
  """The config; see the module's docstring for the variants."""
  return stats_rows.config(common.read_variant(variant, **VARIANTS), STREAMS)
