// News of the server the page came from: what was compiled since, and what went wrong.
const token = new URLSearchParams(location.search).get("token");
function tell({ busy, error }) {
  $("live").hidden = false;
  $("live").className = busy ? "busy" : error ? "bad" : "";
  $("live").textContent = busy ? "compiling" : error ? "not compiled" : "up to date";
  $("trouble").hidden = !error;
  $("trouble").textContent = error;
}
async function listen(seen) {
  for (;;) {
    try {
      const answer = await fetch(`news?token=${encodeURIComponent(token)}&seen=${seen}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      const news = await answer.json();
      if (news.number !== seen) {
        seen = news.number;
        if (news.data && news.data.saved !== data.saved) {
          if (data.functions.length) { others.unshift(data); others.length = Math.min(others.length, 5); }
          if (compare.with[0] === "v") compare.with = "v" + Math.min(Number(compare.with.slice(1)) + 1, others.length - 1);
          load(news.data);
        }
        tell(news);
      }
    } catch {
      $("live").className = "gone";
      $("live").textContent = "the server is gone";
      await new Promise((done) => setTimeout(done, 2000));
    }
  }
}
tell(data.live);
listen(data.live.number);
