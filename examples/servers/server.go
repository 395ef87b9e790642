// server PORT: answers / at once, and /slow when it has the lock for 2 ms.
package main

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"
)

var lock sync.Mutex

//go:noinline
func handle(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/slow" {
		lock.Lock()
		for end := time.Now().Add(2 * time.Millisecond); time.Now().Before(end); {
		}
		lock.Unlock()
	}
	w.Header()["Date"] = nil
	fmt.Fprintln(w, "answered")
}

func main() {
	http.HandleFunc("/", handle)
	fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
	os.Exit(1)
}
