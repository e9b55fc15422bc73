// The settings of decoding: fields made of the server's defaults and limits.

import { element, labelled } from './dom.js';

const METHODS = { beam: 'beam search', greedy: 'greedy', sample: 'sampling' };
// name -> label, hint, the methods that read it, and the attributes of its field.
const FIELDS = {
  beam: { label: 'Beam', hint: 'captions kept at each word', methods: ['beam'] },
  captions: {
    label: 'Captions', hint: 'of each video', methods: ['beam', 'sample'], min: 1, step: 1,
  },
  length_penalty: {
    label: 'Length penalty', hint: 'larger: longer captions', methods: ['beam'], step: 'any',
  },
  temperature: {
    label: 'Temperature', hint: 'smaller: likelier words', methods: ['sample'], min: 0.01,
    step: 'any',
  },
  top_k: {
    label: 'Top k', hint: 'only the k likeliest words; 0: all', methods: ['sample'], min: 0, step: 1,
  },
  top_p: {
    label: 'Top p', hint: 'only the likeliest words up to this probability; 1: all',
    methods: ['sample'], min: 0.01, max: 1, step: 'any',
  },
  seed: {
    label: 'Seed', hint: 'another number: other samples', methods: ['sample'], min: 0,
    max: 2 ** 31 - 1, step: 1,
  },
};
const SHOWN = 3;  // captions of a video, unless a setting says otherwise

/**
 * Fills the form.
 * @param {HTMLFormElement} form
 * @param {HTMLElement} place of the fields
 * @param {object} model the answer of v1/model
 * @returns {() => ?Record<string, string>} reads the fields of a request; null if one is wrong,
 *   which the browser then shows
 */
export function makeSettings(form, place, model) {
  const { methods, beams, default: defaults } = model.decoding;
  const most = model.limits.captions;
  const values = { ...defaults, seed: 0, captions: Math.max(defaults.captions, Math.min(SHOWN, most)) };
  const method = choice('method', methods, defaults.method, value => METHODS[value] ?? value);
  place.append(labelled('Method', method));
  const inputs = { beam: choice('beam', beams, defaults.beam, String) };
  for (const [name, { min, max, step }] of Object.entries(FIELDS)) {
    inputs[name] ??= element('input', {
      type: 'number', name, required: true, min: min ?? '', max: max ?? '', step,
      defaultValue: values[name],
    });
    place.append(labelled(FIELDS[name].label, inputs[name], FIELDS[name].hint));
  }
  const update = () => {
    for (const [name, input] of Object.entries(inputs)) {
      const used = FIELDS[name].methods.includes(method.value);
      input.disabled = !used;
      input.closest('.fields > div').hidden = !used;
    }
    const { captions, beam } = inputs;
    captions.max = method.value === 'beam' ? Math.min(most, Number(beam.value)) : most;
    if (Number(captions.value) > Number(captions.max)) captions.value = captions.max;
  };
  method.addEventListener('change', update);
  inputs.beam.addEventListener('change', update);
  form.addEventListener('reset', () => setTimeout(update));
  form.addEventListener('submit', event => event.preventDefault());
  update();
  return () => {
    if (!form.checkValidity()) {
      form.closest('details').open = true;
      form.reportValidity();
      return null;
    }
    return Object.fromEntries(new FormData(form));
  };
}

function choice(name, values, chosen, text) {
  const options = values.map(value => element(
    'option', { value, defaultSelected: value === chosen }, text(value)));
  return element('select', { name }, ...options);
}
