package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/fee15284/timingwheel"
)

// maxBody is how many bytes of a request body are read.
const maxBody = 16 << 10

// Register adds the service's routes to a mux:
//
//	POST /orders           {"item":"tea","cents":450}
//	POST /orders/{id}/pay
//	GET  /orders/{id}
//	GET  /stats
//
// All answers are JSON, errors are {"error":"..."}: 400 for a bad order, 404 for
// an unknown one, 409 for one that was paid or has expired, 503 if the wheel takes
// no more.
func (s *Service) Register(mux *http.ServeMux) {
	mux.HandleFunc("POST /orders", s.postOrder)
	mux.HandleFunc("POST /orders/{id}/pay", s.postPay)
	mux.HandleFunc("GET /orders/{id}", s.getOrder)
	mux.HandleFunc("GET /stats", s.getStats)
}

func (s *Service) postOrder(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Item  string `json:"item"`
		Cents int64  `json:"cents"`
	}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	body.DisallowUnknownFields()
	if err := body.Decode(&ask); err != nil {
		answerError(w, fmt.Errorf("%w: %w", ErrBadOrder, err))
		return
	}
	if _, err := body.Token(); !errors.Is(err, io.EOF) {
		answerError(w, fmt.Errorf("%w: there is more after the JSON object", ErrBadOrder))
		return
	}
	o, err := s.Create(ask.Item, ask.Cents)
	if err != nil {
		answerError(w, err)
		return
	}
	w.Header().Set("Location", fmt.Sprintf("/orders/%d", o.ID))
	answer(w, http.StatusCreated, o)
}

func (s *Service) postPay(w http.ResponseWriter, r *http.Request) { withOrder(w, r, s.Pay) }

func (s *Service) getOrder(w http.ResponseWriter, r *http.Request) { withOrder(w, r, s.Order) }

// withOrder answers with what do returns for the order in the path.
func withOrder(w http.ResponseWriter, r *http.Request, do func(uint64) (Order, error)) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		answerError(w, fmt.Errorf("order %q: %w", r.PathValue("id"), ErrNotFound))
		return
	}
	o, err := do(id)
	if err != nil {
		answerError(w, err)
		return
	}
	answer(w, http.StatusOK, o)
}

func (s *Service) getStats(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, s.Stats())
}

func answerError(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch {
	case errors.Is(err, ErrBadOrder):
		code = http.StatusBadRequest
	case errors.Is(err, ErrNotFound):
		code = http.StatusNotFound
	case errors.Is(err, ErrTooLate), errors.Is(err, ErrPaid):
		code = http.StatusConflict
	case errors.Is(err, timingwheel.ErrStopped), errors.Is(err, timingwheel.ErrFull):
		code = http.StatusServiceUnavailable
	}
	answer(w, code, map[string]string{"error": err.Error()})
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		slog.Debug("the client left before the answer", "error", err)
	}
}
