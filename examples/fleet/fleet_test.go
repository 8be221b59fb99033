package main

import (
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(workerEnv); addr != "" {
		exit(runWorker(addr)) // this is a worker of TestFleet
	}
	os.Exit(m.Run())
}

func TestFleet(t *testing.T) {
	p := plan{workers: 3, kills: 2, rate: 200, span: 3 * time.Second, within: 700 * time.Millisecond, lease: 500 * time.Millisecond}
	if err := run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func TestAPlanIsChecked(t *testing.T) {
	if err := run(t.Context(), plan{}); err == nil {
		t.Error("an empty plan was carried out")
	}
}
