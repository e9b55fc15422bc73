// The data of the report: files in data/ that are loaded by script elements when they are needed.

const arrived = new Map();  // name -> what gives its promise the value
const loading = new Map();  // name -> promise of the value

window.vidcapReport = {
  receive(name, value) {
    arrived.get(name)?.(value);
  },
};

/** The value of data/NAME.js; rejected with a message if the file is missing or damaged. */
export function load(name) {
  if (!loading.has(name)) {
    loading.set(name, new Promise((resolve, reject) => {
      const fail = () => reject(new Error(
        `data/${name}.js cannot be read. Copy the whole folder of the report, or make it again.`));
      arrived.set(name, resolve);
      const script = document.createElement('script');
      script.src = `data/${name}.js`;
      script.onerror = fail;
      script.onload = fail;  // has no effect if the file has handed over its value
      document.head.append(script);
    }));
  }
  return loading.get(name);
}

const fileName = (name, number) => `${name}-${String(number).padStart(3, '0')}`;

/** The entry of a number in files that begin with the numbers ``starts``. */
export async function loadEntry(name, starts, number) {
  const file = starts.findLastIndex(start => start <= number);
  return (await load(fileName(name, file)))[number - starts[file]];
}

/** All entries, in the order of the files. */
export async function loadAll(name, starts) {
  const files = await Promise.all(starts.map((_, file) => load(fileName(name, file))));
  return files.flat();
}
