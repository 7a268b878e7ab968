// A worker for pages that are opened from the disk, where browsers allow none: its script runs in a hidden frame.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = inside.document.createElement("script")
      script.src = url
      this.ready = new Promise(loaded => (script.onload = loaded))
      inside.document.body.append(script)
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
