"""The look of the report: quiet type and rules, light or dark as the reader's system is."""

STYLE = """
:root { color-scheme: light dark; --ground: #fbfbf9; --card: #ffffff; --ink: #16181d; --soft: #5d6370;
  --line: #e4e4df; --accent: #1f6fd0; --wash: rgba(31,111,208,.12); --lossy: #a8480f; --lossy-wash:
  #fbeade; --good: #17693f; --good-wash: #e2f3e9; --trunk: #2a78d6; --draft: #1baf7a; --verify: #eda100;
  --rest: #a3a6ad; }
@media (prefers-color-scheme: dark) { :root { --ground: #14161a; --card: #1c1f25; --ink: #eceef2; --soft:
  #a0a7b4; --line: #30343d; --accent: #6aa9f4; --wash: rgba(106,169,244,.16); --lossy: #f2a673;
  --lossy-wash: #3a2517; --good: #7fd6a4; --good-wash: #173324; --trunk: #3987e5; --draft: #199e70;
  --verify: #c98500; --rest: #6d727d; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); line-height: 1.5; font-family: system-ui,
  -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; font-size: 15px; }
main { max-width: 1200px; margin: 0 auto; padding: 48px 24px 72px; }
h1 { font-size: 30px; line-height: 1.2; letter-spacing: -.02em; margin: 0 0 8px; font-weight: 650; }
h2 { font-size: 19px; letter-spacing: -.01em; margin: 52px 0 4px; font-weight: 620; }
p { margin: 0 0 14px; max-width: 78ch; }
.soft, figcaption { color: var(--soft); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); gap: 14px; margin:
  26px 0 8px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 18px 20px; }
.card b { display: block; font-size: 30px; line-height: 1.15; letter-spacing: -.02em; font-weight: 640; }
.card span { color: var(--soft); font-size: 13.5px; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 6px 18px; margin: 12px 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 14px; }
th { color: var(--soft); font-weight: 520; font-size: 13px; }
th, td { text-align: right; padding: 9px 9px; border-bottom: 1px solid var(--line); white-space: nowrap;
  }
tr:last-child td { border-bottom: 0; }
th:first-child, td:first-child { text-align: left; padding-left: 0; font-weight: 560; }
.words2 th:nth-child(2), .words2 td:nth-child(2) { text-align: left; }
th:last-child, td:last-child { padding-right: 0; }
.tag { vertical-align: middle; border-radius: 99px; padding: 2px 9px; font-size: 12.5px; font-weight: 560; }
.tag.lossless { color: var(--good); background: var(--good-wash); }
.tag.lossy { color: var(--lossy); background: var(--lossy-wash); }
.tag.control { color: var(--soft); border: 1px solid var(--line); }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 420px), 1fr)); gap: 14px;
  margin-top: 12px; }
.gallery.many { grid-template-columns: 1fr; }
.gallery figure, .maps figure { margin: 0; }
.gallery .row { display: grid; gap: 10px; grid-auto-flow: column; grid-auto-columns: 1fr; }
.gallery.many .row { grid-auto-flow: row; grid-template-columns: repeat(auto-fill, minmax(96px, 1fr)); }
.gallery .card { padding: 14px 16px 12px; }
.gallery h3 { font-size: 14px; font-weight: 560; margin: 0 0 10px; overflow-wrap: anywhere; }
figcaption { font-size: 12.5px; text-align: center; margin-top: 4px; overflow-wrap: anywhere; }
.gallery figcaption span { display: block; font-size: 11.5px; }
.gallery figcaption.lossless span { color: var(--good); }
.gallery figcaption.lossy span { color: var(--lossy); }
img { display: block; width: 100%; border-radius: 6px; }
img.pixels { image-rendering: pixelated; }
.maps { display: flex; flex-wrap: wrap; gap: 18px 40px; margin-top: 14px; }
.maps .group { display: flex; flex-wrap: wrap; gap: 4px 12px; align-content: start; }
.maps .group:first-child { width: 132px; }
.maps h4 { flex-basis: 100%; margin: 0; font-size: 13px; font-weight: 520; color: var(--soft); }
.maps figure { width: 132px; }
.maps figcaption b { color: var(--ink); font-weight: 560; }
img.heat { border: 1px solid var(--line); background: var(--card); border-radius: 4px; }
.scale { display: flex; flex-wrap: wrap; align-items: center; gap: 10px; font-size: 12.5px; color:
  var(--soft); margin: 12px 0; }
.scale i { width: 120px; height: 10px; border-radius: 3px; border: 1px solid var(--line); }
.scale .share { min-width: 0; display: block; background: linear-gradient(90deg, rgba(31,111,208,.1),
  rgb(31,111,208)); }
.scale .time { background: linear-gradient(90deg, rgb(253,231,37), rgb(94,201,98), rgb(33,145,140),
  rgb(59,82,139), rgb(68,1,84)); }
.scale .gap { margin-left: 24px; }
details { border-top: 1px solid var(--line); padding: 10px 0; }
summary { cursor: pointer; font-weight: 560; }
summary .soft { font-weight: 400; margin-left: 8px; }
.plot { display: block; width: 100%; height: auto; background: var(--card); border: 1px solid var(--line);
  border-radius: 12px; margin: 12px 0; }
.plot text { fill: var(--soft); font-size: 12.5px; text-anchor: middle; }
.plot .grid { stroke: var(--line); }
.plot .axis { stroke: var(--soft); }
.plot .band { fill: var(--wash); }
.plot .name { fill: var(--ink); font-weight: 560; font-size: 13px; text-anchor: start; }
.plot .front { fill: none; stroke: var(--soft); stroke-width: 1; stroke-dasharray: 3 4; }
.plot .mark path { stroke: var(--accent); stroke-width: 1.5; fill: none; }
.plot circle { stroke: var(--accent); stroke-width: 2.5; fill: var(--card); }
.plot .lossless circle { fill: var(--accent); }
.share { display: flex; gap: 2px; height: 14px; min-width: 320px; }
.share.narrow { min-width: 180px; }
.share i { border-radius: 2px; min-width: 1px; }
.key { display: flex; flex-wrap: wrap; gap: 18px; font-size: 13px; color: var(--soft); }
.key i { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 6px; }
.trunk { background: var(--trunk); }
.draft { background: var(--draft); }
.verify { background: var(--verify); }
.rest { background: var(--rest); }
.bar { display: inline-block; height: 8px; border-radius: 2px; background: var(--accent); margin-left:
  10px; vertical-align: middle; }
.track { display: inline-block; width: 60px; text-align: left; }
.track.long { width: 132px; }
ul { padding-left: 20px; margin: 8px 0; color: var(--soft); }
li { margin: 3px 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 6px 22px; font-size: 14px; margin: 12px
  0; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: 13px; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px;
  overflow-x: auto; }
@media (max-width: 640px) { main { padding: 28px 16px; } .gallery { grid-template-columns: 1fr; } }
"""
