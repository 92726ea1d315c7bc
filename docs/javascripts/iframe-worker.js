/* Pages opened from the disk may not start workers, and the search is one: there it runs in a hidden frame instead. */
if (location.protocol === "file:") {
  class FrameWorker extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe"), waiting = [];
      frame.hidden = true;
      frame.title = "Search";
      document.body.append(frame);
      const inside = frame.contentWindow;
      const deliver = data => inside.dispatchEvent(new inside.MessageEvent("message", { data }));
      this.postMessage = data => (this.ready ? deliver(data) : waiting.push(data));
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = new URL(address, location.href);
      script.onload = () => { this.ready = true; waiting.splice(0).forEach(deliver); };
      inside.document.body.append(script);
      this.terminate = () => frame.remove();
    }
  }
  window.IFrameWorker = window.Worker = FrameWorker;
}
