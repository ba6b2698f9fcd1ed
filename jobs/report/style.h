// The report's style sheet: dark text on white, one column on a phone, two of figures on a desk, everything open on paper.
#pragma once

namespace longwave {

inline constexpr const char* report_style = R"css(
:root { --ink: #1d2329; --soft: #5a6470; --rule: #d9dde2; --ground: #f5f7f9; --accent: #0072b2; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--ink); 
  font: 16px/1.55 "Source Sans 3", "Segoe UI", Roboto, "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 2.5rem 1.5rem 4rem; }
.kicker { margin: 0; color: var(--soft); font-size: .8rem; letter-spacing: .08em; text-transform: uppercase; }
h1 { margin: .1rem 0 .5rem; font-size: 2rem; line-height: 1.2; font-weight: 650; overflow-wrap: anywhere; }
h2 { margin: 3rem 0 1rem; padding-bottom: .3rem; border-bottom: 1px solid var(--rule); font-size: 1.35rem; font-weight: 650; }
h3 { margin: 1.6rem 0 .5rem; font-size: 1rem; font-weight: 650; }
h4 { margin: 1.2rem 0 .4rem; font-size: .9rem; font-weight: 650; }
.subtitle { margin: 0; max-width: 46rem; color: var(--soft); }
.verdict { margin: 1.6rem 0 0; padding: .9rem 1.2rem; border-left: 4px solid var(--accent); background: var(--ground); }
.verdict p { margin: .4rem 0; max-width: 60rem; }
.verdict p:first-child { font-size: 1.1rem; }
.note { margin: .5rem 0; max-width: 50rem; color: var(--soft); font-size: .85rem; }
.absent { color: #8a4b00; }
/* A shadow at the side where a wide table goes on. */
.scroll {
  overflow-x: auto;
  background: linear-gradient(to right, #fff 40%, transparent) 0 0 / 3rem 100% no-repeat local,
    linear-gradient(to left, #fff 40%, transparent) 100% 0 / 3rem 100% no-repeat local,
    linear-gradient(to right, #0002, transparent) 0 0 / .7rem 100% no-repeat scroll,
    linear-gradient(to left, #0002, transparent) 100% 0 / .7rem 100% no-repeat scroll;
}
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums lining-nums; }
th, td { padding: .32rem .55rem; text-align: right; vertical-align: baseline; }
th { white-space: pre; font-weight: 600; color: var(--soft); vertical-align: bottom; }
td { white-space: nowrap; border-top: 1px solid var(--rule); }
th.text, td.text { text-align: left; }
th:first-child, td:first-child { padding-left: .2rem; }
td strong { font-weight: 700; color: #000; }
.swatch { display: inline-block; width: .7em; height: .7em; margin-right: .5em; border-radius: 2px;
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.tables { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 440px), 1fr)); gap: 0 2rem; }
.tables > div { min-width: 0; }
.tables.wide { grid-template-columns: 1fr; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; margin: .8rem 0; font-size: .95rem; }
.key { width: 30px; height: 14px; margin-right: .5em; vertical-align: -1px; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 440px), 1fr)); gap: 1.5rem 2rem; }
figure { margin: 0; max-width: 620px; break-inside: avoid; }
.figures h3 { margin-top: 0; }
figure svg { display: block; width: 100%; height: auto; }
figure svg text, figure svg tspan { font-family: inherit; }
figcaption { font-size: .88rem; color: var(--soft); }
figcaption b { display: block; color: var(--ink); font-size: .95rem; font-weight: 650; }
.maps { display: flex; flex-wrap: wrap; gap: 0 1.6rem; }
.map { max-width: 100%; break-inside: avoid; }
.map h3 { margin-top: .6rem; }
.heat { border-collapse: separate; border-spacing: 2px; }
.heat th { padding: .2rem .15rem; text-align: center; vertical-align: middle; }
.heat th.trained { text-decoration: underline; text-underline-offset: 3px; color: var(--ink); }
.heat { font-size: .85rem; }
.heat td { min-width: 2.75rem; padding: .42rem .2rem; border: 0; border-radius: 3px; text-align: center;
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.heat td.none { color: var(--soft); }
article { margin-bottom: 2rem; padding-top: .2rem; }
article + article { border-top: 1px solid var(--rule); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem; margin: .5rem 0; font-size: .92rem; }
dt { color: var(--soft); }
dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
a { color: var(--accent); }
details { margin: .8rem 0; }
summary { cursor: pointer; font-size: .92rem; font-weight: 600; }
.settings { font-size: .85rem; }
.settings td { padding-top: .15rem; padding-bottom: .15rem; white-space: normal; overflow-wrap: anywhere; }
.settings td:last-child { color: var(--soft); }
@media (max-width: 600px) {
  main { padding: 1.2rem 1rem 3rem; }
  h1 { font-size: 1.5rem; }
  th, td { padding: .3rem .5rem; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .4rem; }
  .heat td { min-width: 2.6rem; }
}
@media print {
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  h2, h3 { break-after: avoid; }
  table, tr { break-inside: avoid; }
  .settings, .settings tr { break-inside: auto; }
  .figures { grid-template-columns: 1fr 1fr; gap: 1rem; }
  details::details-content { content-visibility: visible; block-size: auto; }
  .scroll { overflow: visible; background: none; }
}
)css";

}  // namespace longwave
