package main

import (
	"fmt"
	"net/http"
)

type Port struct {
	Name string
}

func (p *Port) Open() error {
	return nil
}

func main() {
	fmt.Println(http.StatusOK)
}
