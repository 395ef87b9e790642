// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A program that is built with the overlay passes the package's tests.
func TestTheOverlayBuilds(t *testing.T) {
	folder := t.TempDir()
	if err := write(folder); err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(folder, "overlay.json")
	command := exec.Command("go", "test", "-count=1", "-v", "-tags", "perftax", "-overlay", overlay, "perftax/tag")
	out, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestTheRuntimeSaysWhoComesAndLeaves") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestWhatIsNotKnownIsRefused(t *testing.T) {
	root, err := goroot()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(root, "src", "runtime", "proc.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"func dropg() {", "\tgp := getg()\n", "\tgogo(&gp.sched)\n"} {
		if _, err := withCalls(strings.ReplaceAll(string(source), gone, "")); err == nil || !strings.Contains(err.Error(), "not known") {
			t.Fatal(gone, err)
		}
	}
}
