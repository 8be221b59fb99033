module github.com/fee15284/timingwheel/wheelhttp/browsertest

go 1.25.0

replace github.com/fee15284/timingwheel => ../..

require (
	github.com/benbjohnson/clock v1.3.5
	github.com/chromedp/cdproto v0.160.1
	github.com/chromedp/chromedp v0.23.1
	github.com/fee15284/timingwheel v0.0.0-00010101000000-000000000000
)

require github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
