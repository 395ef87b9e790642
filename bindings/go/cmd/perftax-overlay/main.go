// SPDX-License-Identifier: MIT OR Apache-2.0

// Command perftax-overlay makes what `go build -overlay` needs so that the runtime says which goroutine comes to a thread and leaves it:
//
//	go run perftax/tag/cmd/perftax-overlay DIR
//	go build -tags perftax -overlay DIR/overlay.json ./server
//
// It adds a call to execute and to dropg (runtime/proc.go) of the Go that runs it. A mark's price aside, that takes a look at a variable whenever a goroutine comes or leaves; while somebody
// listens, a time stamp and 32 bytes.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const declaration = `package runtime

// perftaxCarrier: the thread goes on with a goroutine; 0: with none.
//
//go:noescape
func perftaxCarrier(goid uint64)
`

const assembly = `#include "textflag.h"

DATA perftax_carrier_hook(SB)/8, $0
GLOBL perftax_carrier_hook(SB), NOPTR, $8

// func perftaxCarrier(goid uint64)
TEXT ·perftaxCarrier(SB), NOSPLIT, $0-8
	MOVQ goid+0(FP), DI
	MOVQ perftax_carrier_hook(SB), AX
	TESTQ AX, AX
	JEQ none
	CALL AX
none:
	RET
`

// Where calls go: in which function, before or behind which line.
var calls = []struct{ function, line, call string }{
	{"func execute(gp *g, inheritTime bool) {", "\tgogo(&gp.sched)\n", "\tperftaxCarrier(gp.goid)\n\tgogo(&gp.sched)\n"},
	// Before anybody else can go on with it.
	{"func dropg() {", "\tgp := getg()\n", "\tgp := getg()\n\tperftaxCarrier(0)\n"},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: perftax-overlay DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "perftax-overlay:", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	root, err := goroot()
	if err != nil {
		return err
	}
	folder, err = filepath.Abs(folder)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	scheduler := filepath.Join(root, "src", "runtime", "proc.go")
	source, err := os.ReadFile(scheduler)
	if err != nil {
		return err
	}
	called, err := withCalls(string(source))
	if err != nil {
		return fmt.Errorf("%s: %w", scheduler, err)
	}
	replace := map[string]string{}
	for name, text := range map[string]string{"proc.go": called, "perftax.go": declaration, "perftax_amd64.s": assembly} {
		made := filepath.Join(folder, name)
		if err := os.WriteFile(made, []byte(text), 0o644); err != nil {
			return err
		}
		replace[filepath.Join(root, "src", "runtime", name)] = made
	}
	list, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "overlay.json"), append(list, '\n'), 0o644)
}

// goroot asks the go command, which is the one that will build.
func goroot() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	return strings.TrimSpace(string(out)), err
}

// withCalls adds the calls; each line must be there once in its function.
func withCalls(source string) (string, error) {
	for _, call := range calls {
		from := strings.Index(source, call.function)
		if from < 0 {
			return "", fmt.Errorf("no %q: this release of Go is not known", call.function)
		}
		to := strings.Index(source[from:], "\n}\n")
		if to < 0 {
			return "", fmt.Errorf("%q has no end", call.function)
		}
		body := source[from : from+to+1]
		if strings.Count(body, call.line) != 1 {
			return "", fmt.Errorf("%q is %d times in %q, once was expected: this release of Go is not known", call.line, strings.Count(body, call.line), call.function)
		}
		source = source[:from] + strings.Replace(body, call.line, call.call, 1) + source[from+len(body):]
	}
	return source, nil
}
