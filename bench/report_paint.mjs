// When reports have painted, in milliseconds after they began to open:
//   report_paint.mjs NODE_MODULES CHROMIUM REPORT.html...
// Prints {"REPORT.html": median of three, ...}.
import {launch, openReport} from '../tests/plots/report/browser.mjs';

const [packages, chromium, ...files] = process.argv.slice(2);
const kRuns = 3;
const browser = await launch(packages, chromium);
const medians = {};
for (const file of files) {
  const times = [];
  for (let run = 0; run < kRuns; ++run) {
    const {context, painted} = await openReport(browser, file);
    times.push(painted);
    await context.close();
  }
  medians[file] = times.sort((a, b) => a - b)[Math.floor(kRuns / 2)];
}
await browser.close();
console.log(JSON.stringify(medians));
