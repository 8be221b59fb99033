module github.com/fee15284/timingwheel/proof

go 1.25.0

require (
	github.com/fee15284/timingwheel v0.0.0
	github.com/jonboulle/clockwork v0.5.0
	go.uber.org/goleak v1.3.0
	k8s.io/utils v0.0.0-20250604170112-4c0f3b243397
	pgregory.net/rapid v1.2.0
)

replace github.com/fee15284/timingwheel => ../
